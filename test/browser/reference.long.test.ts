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
});
