import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeInBrowser, openPage, startBrowser } from '../support/browser.js';
import { startGateway, type Gateway } from '../support/gateway.js';

/** What a page can read of a response, or the error it gets instead. */
interface Seen {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body?: { readonly data?: unknown };
  readonly refused?: string;
}

describeInBrowser('a page of another origin', () => {
  let gateway: Gateway;
  let browser: Browser;
  let pages: Server;
  let port: number;

  beforeAll(async () => {
    gateway = await startGateway('embedded', { NODE_ENV: 'development', SAMPLE_DATA: 'true' });
    browser = await startBrowser();
    pages = createServer((_, response) => {
      response
        .setHeader('Content-Type', 'text/html')
        .end('<!doctype html><title>An app</title><link rel="icon" href="data:,">');
    });
    await new Promise<void>((ready) => pages.listen(0, '127.0.0.1', ready));
    ({ port } = pages.address() as AddressInfo);
  }, 120_000);
  afterAll(async () => {
    await browser.close();
    await new Promise((closed) => pages.close(closed));
    await gateway.close();
  });

  /** Calls fetch in a page served from `host`. */
  async function ask(host: string, path: string, init: object): Promise<Seen> {
    const { page, close } = await openPage(browser);
    try {
      await page.goto(`http://${host}:${port}/`);
      return await page.evaluate<Seen, string>(
        `(async () => {
          try {
            const response = await fetch(${JSON.stringify(gateway.url + path)}, ${JSON.stringify(init)});
            const text = await response.text();
            const headers = Object.fromEntries(response.headers);
            return { status: response.status, headers, body: text === '' ? undefined : JSON.parse(text) };
          } catch (error) {
            return { refused: error.message };
          }
        })()`,
        '',
      );
    } finally {
      await close();
    }
  }

  function list(key: string): object {
    return {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Authorization: `Bearer ${key}`,
        'apollographql-client-name': 'app',
      },
      body: JSON.stringify({ query: '{ pets(limit: 1) { name } pet(id: 1) { id } }' }),
    };
  }

  it('from localhost can send requests and read the limit headers', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const { status, headers, body } = await ask('localhost', '/graphql', list(key));
    expect(status).toBe(200);
    expect(body?.data).toEqual({ pets: [{ name: 'Bella' }], pet: { id: '1' } });
    expect(headers).toMatchObject({
      'x-ratelimit-limit': '60',
      'x-ratelimit-remaining': '58',
      'x-ratelimit-reset': expect.stringMatching(/^\d+$/),
      ratelimit: expect.stringContaining('"minute";r=58'),
      'ratelimit-policy': '"minute";q=60;w=60, "day";q=1000;w=86400',
      'x-request-id': expect.any(String),
    });
  });

  it('can read Retry-After', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 2, perDay: 10 } });
    await ask('localhost', '/graphql', list(key));
    const { status, headers } = await ask('localhost', '/graphql', list(key));
    expect(status).toBe(429);
    expect(Number(headers?.['retry-after'])).toBeGreaterThan(0);
  });

  it('from another host cannot read the response', async () => {
    const { key } = await gateway.createKey();
    expect(await ask('stranger.localhost', '/graphql', list(key))).toEqual({ refused: 'Failed to fetch' });
  });
});
