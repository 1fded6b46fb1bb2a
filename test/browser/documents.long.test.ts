import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Browser } from 'playwright-core';
import { describeInBrowser, openPage, startBrowser } from '../support/browser.js';
import { startGateway, type Gateway } from '../support/gateway.js';

describeInBrowser('the documents of a server', () => {
  let browser: Browser;
  let gateway: Gateway;

  beforeAll(async () => {
    [browser, gateway] = await Promise.all([startBrowser(), startGateway('embedded', { EXPLORER: 'true' })]);
  });
  afterAll(async () => {
    await browser.close();
    await gateway.close();
  });

  it.each([
    ['README', '/graphql'],
    ['getting-started', '/v1/pets?limit=2&status=available'],
    ['proxying', '/v1 npm start'],
    ['explorers', '/graphql'],
  ])('%s has the address of the server in its examples', async (name, path) => {
    const { page, complaints, close } = await openPage(browser);
    await page.goto(`${gateway.url}/docs/${name}`);
    const text = await page.locator('main').innerText();
    expect(text).toContain(`${gateway.url}${path}`);
    const links = await page.locator('a').evaluateAll((all) => all.map((link) => (link as { href?: string }).href));
    for (const shown of [text, ...links]) expect(shown).not.toMatch(/(?:127\.0\.0\.1|localhost):4000/);
    expect(complaints).toEqual([]);
    await close();
  });
});
