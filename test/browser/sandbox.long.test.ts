import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeInBrowser, openPage, startBrowser } from '../support/browser.js';
import { startGateway, type Gateway } from '../support/gateway.js';

const CDN = 'https://embeddable-sandbox.cdn.apollographql.com';
/** Stands where Apollo's script would: it keeps what the page hands to it. */
const RECORDER = 'window.EmbeddedSandbox = class { constructor(options) { window.handed = options; } };';

/** Apollo's servers are not asked in tests; what the page says to their script is what this program answers for. */
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

  it('opens at /graphql, pointed at it, with an operation and a place for the key', async () => {
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
    // Its own policy lets through what it needs; what was kept from the network is not its complaint.
    expect(complaints.filter((text) => text.includes('Content Security Policy'))).toEqual([]);
    await close();
  });
});
