import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  describeInBrowser,
  findFaults,
  LOOKS,
  openPage,
  overflowOf,
  photograph,
  startBrowser,
} from '../support/browser.js';
import { startGateway, type Gateway } from '../support/gateway.js';

/** Each page, and the element that shows that it is complete. */
const PAGES = [
  ['front', '/', '.links a'],
  ['explorer', '/explorer', '[aria-label="Show Documentation Explorer"]'],
  ['reference', '/reference', '.opblock'],
  ['document', '/docs/limits', 'table'],
] as const;
/** The panels beside the explorer's editor. */
const PANELS = ['Documentation Explorer', 'History'];
const DIALOGS = ['short keys', 'settings'];
/** The plain pages of a server whose other pages are off. */
const PLAIN_PAGES = ['/', '/nothing', '/graphql', '/readyz'];

describeInBrowser('the pages, checked by axe', () => {
  let gateway: Gateway;
  let browser: Browser;

  beforeAll(async () => {
    gateway = await startGateway('embedded', { NODE_ENV: 'development', SAMPLE_DATA: 'true' });
    browser = await startBrowser();
  }, 120_000);
  afterAll(async () => {
    await browser.close();
    await gateway.close();
  });

  it.each(LOOKS.flatMap((look) => PAGES.map((page) => ({ ...look, page }))))(
    'have no fault: $page.0, $look',
    async ({ look, options, page: [name, path, complete] }) => {
      // Its policy would not let the page run axe.
      const { page, close } = await openPage(browser, { ...options, bypassCSP: true });
      await page.goto(gateway.url + path);
      await page.locator(complete).first().waitFor();
      for (const operation of await page.locator('.opblock-summary-control').all()) await operation.click();
      if (name === 'reference') {
        await page.locator('.execute').first().click();
        await page.locator('.download-contents').waitFor();
      }
      if (name === 'explorer') {
        await page.getByLabel('API key').fill((await gateway.createKey()).key);
        await page.keyboard.press('Enter');
        await page.getByText('business plan').waitFor();
        await page.locator('.graphiql-execute-button').click();
        await page.locator('.result-window').getByText('Bella').waitFor();
      }
      expect(await overflowOf(page)).toBe(0);
      await photograph(page, `${name}-${look}`);
      expect(await findFaults(page)).toEqual([]);
      if (name === 'explorer') {
        await page.getByLabel('Copy as code or link').click();
        await page.getByRole('menu').waitFor();
        expect(['menu', await findFaults(page)]).toEqual(['menu', []]);
        await page.keyboard.press('Escape');
      }
      for (const dialog of name === 'explorer' ? DIALOGS : []) {
        await page.getByLabel(`Open ${dialog} dialog`).click();
        await page.getByRole('dialog').waitFor();
        expect([dialog, await findFaults(page)]).toEqual([dialog, []]);
        await page.keyboard.press('Escape');
      }
      for (const panel of name === 'explorer' ? PANELS : []) {
        await page.getByLabel(`Show ${panel}`).click();
        expect([panel, await findFaults(page)]).toEqual([panel, []]);
        await photograph(page, `${name}-${look}-${panel}`);
      }
      await close();
    },
  );

  it.each(LOOKS)('have no fault where all but the plain ones are off: $look', async ({ options }) => {
    const production = await startGateway('embedded', { NODE_ENV: 'production' });
    const { page, close } = await openPage(browser, { ...options, bypassCSP: true });
    for (const path of PLAIN_PAGES) {
      await page.goto(production.url + path);
      expect([path, await findFaults(page)]).toEqual([path, []]);
    }
    await close();
    await production.close();
  });
});
