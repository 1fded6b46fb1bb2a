import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeInBrowser, openPage, startBrowser } from '../support/browser.js';
import { startGateway, type Gateway } from '../support/gateway.js';

const CDN = 'https://embeddable-sandbox.cdn.apollographql.com';
/** Replaces Apollo's script and records the options that the page passes. */
const RECORDER = 'window.EmbeddedSandbox = class { constructor(options) { window.handed = options; } };';

/** These tests send nothing to Apollo's servers. They check what the page passes to Apollo's script. */
describeInBrowser('the Apollo Sandbox page', () => {
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

  it('opens at /graphql with that endpoint, an operation and an empty Authorization header', async () => {
    const { page, complaints, close } = await openPage(browser);
    const asked: string[] = [];
    await page.context().route(/apollographql\.com|googleapis\.com|gstatic\.com/, (route) => {
      asked.push(new URL(route.request().url()).origin);
      return route.request().resourceType() === 'script'
        ? route.fulfill({ contentType: 'text/javascript', body: RECORDER })
        : route.abort();
    });
    await page.goto(`${gateway.url}/graphql`);
    const handed = await page.evaluate('window.handed');
    expect(handed).toMatchObject({
      initialEndpoint: `${gateway.url}/graphql`,
      endpointIsEditable: false,
      initialState: {
        document: expect.stringContaining('query ListPets'),
        headers: { Authorization: 'Bearer ' },
        includeCookies: false,
      },
    });
    expect(asked).toContain(CDN);
    // Requests blocked by this test also cause console errors, so only policy violations count.
    expect(complaints.filter((text) => text.includes('Content Security Policy'))).toEqual([]);
    await close();
  });
});
