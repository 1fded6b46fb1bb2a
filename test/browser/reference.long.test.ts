import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeInBrowser, openPage, startBrowser } from '../support/browser.js';
import { startGateway, type Gateway } from '../support/gateway.js';

describeInBrowser('the REST reference', () => {
  let gateway: Gateway;
  let browser: Browser;

  beforeAll(async () => {
    gateway = await startGateway('embedded', { NODE_ENV: 'development' });
    browser = await startBrowser();
  }, 120_000);
  afterAll(async () => {
    await browser.close();
    await gateway.close();
  });

  it('adds an animal with the key of this tab, and shows its identifiers exactly', async () => {
    const { page, origins, complaints, close } = await openPage(browser);
    await page.addInitScript(`sessionStorage['animal-store:key'] = '${(await gateway.createKey()).key}'`);
    await page.goto(`${gateway.url}/reference`);
    const operation = page.locator('#operations-pets-createPet');
    await operation.locator('.opblock-summary-control').click();
    await operation
      .locator('textarea.body-param__text')
      .fill('{ "name": "Daisy", "categoryId": 9007199254740993, "status": "sold" }');
    await operation.locator('.execute').click();
    const response = operation.locator('.live-responses-table');
    await response.getByText('201').first().waitFor();
    expect(await response.innerText()).toContain('"categoryId": 9007199254740993');
    expect(await gateway.sql('SELECT category_id FROM pets')).toEqual([{ category_id: '9007199254740993' }]);
    expect(origins).toEqual(new Set([gateway.url]));
    expect(complaints).toEqual([]);
    await close();
  });

  it('sends its requests below the path prefix of a proxy, and nowhere else', async () => {
    const proxy = createServer((received, response) => {
      const path = /^\/store(\/.*)/.exec(received.url ?? '')?.[1];
      if (path === undefined) return void response.writeHead(404).end();
      const options = { method: received.method, headers: received.headers };
      received.pipe(
        request(gateway.url + path, options, (answer) =>
          answer.pipe(response.writeHead(answer.statusCode as number, answer.headers)),
        ).on('error', () => response.destroy()),
      );
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const prefix = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/store/`;
    const { page, complaints, close } = await openPage(browser);
    const urls: string[] = [];
    page.on('request', (sent) => urls.push(sent.url()));
    await page.addInitScript(`sessionStorage['animal-store:key'] = '${(await gateway.createKey()).key}'`);
    await page.goto(`${prefix}reference`);
    const operation = page.locator('#operations-pets-listPets');
    await operation.locator('.opblock-summary-control').click();
    await operation.locator('.execute').click();
    await operation.locator('.live-responses-table').getByText('200').first().waitFor();
    expect(await operation.locator('.request-url').innerText()).toContain(`${prefix}v1/pets`);
    expect(await operation.locator('.curl-command').innerText()).toContain(`${prefix}v1/pets`);
    expect(urls.filter((url) => !url.startsWith(prefix) && !url.startsWith('data:'))).toEqual([]);
    expect(complaints).toEqual([]);
    await close();
    proxy.closeAllConnections();
    proxy.close();
  });
});
