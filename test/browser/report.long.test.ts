import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
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
import { makePlace, type Place } from '../support/process.js';
import { runSql } from '../support/sql.js';

describeInBrowser('the page that keys report writes', () => {
  let browser: Browser;
  let place: Place;
  let url: string;

  beforeAll(async () => {
    browser = await startBrowser();
    place = await makePlace();
    const env = { DATABASE_URL: await place.database() };
    await runSql(
      env.DATABASE_URL,
      `INSERT INTO api_keys (id, digest, plan, label, created_at, expires_at, read_only)
       SELECT 'key_' || lpad(i::text, 12, '0'), sha256(i::text::bytea), (ARRAY['free', 'pro', 'business'])[1 + i % 3],
              'customer ' || i || ' <script>alert(1)</script>', now() - i * interval '1 day',
              CASE WHEN i % 10 = 0 THEN now() + i * interval '3 hours' END, i % 7 = 0
       FROM generate_series(1, 120) AS i`,
    );
    await runSql(
      env.DATABASE_URL,
      `INSERT INTO usage
       SELECT 'key_' || lpad(i::text, 12, '0'), date_trunc('day', now(), 'UTC') - d * interval '24 hours', 24, 'shop-web',
              'ShopWindow', CASE WHEN i % 9 = 0 THEN 'Query.pet' ELSE '' END, 200 - d, 300 - d, 30 + d % 7, 20 + d % 5, now()
       FROM generate_series(0, 89) AS d, generate_series(1, 60) AS i`,
    );
    expect((await place.keys(['report', '--html', 'report.html'], env)).code).toBe(0);
    url = pathToFileURL(join(place.directory, 'report.html')).href;
  });
  afterAll(async () => {
    await browser.close();
    await place.close();
  });

  it.each(LOOKS)('needs no network, fits its window and has no fault: $look', async ({ look, options }) => {
    const { page, origins, complaints, close } = await openPage(browser, options);
    await page.goto(url);
    expect(await overflowOf(page)).toBe(0);
    await page.getByText('Both as a table').click();
    await page.getByText('starts at').waitFor();
    expect(await page.locator('svg g').count()).toBe(180);
    await photograph(page, `report-${look}`);
    expect(await findFaults(page)).toEqual([]);
    expect([[...origins], complaints]).toEqual([['null'], []]);
    await close();
  });

  it('is read by keyboard: each table scrolls', async () => {
    const { page, close } = await openPage(browser, LOOKS.at(-1)?.options);
    await page.goto(url);
    const names: unknown[] = [];
    for (let i = 0; i < 6; i++) {
      await page.keyboard.press('Tab');
      await page.keyboard.press('ArrowRight');
      names.push(await page.evaluate('document.activeElement.tagName'));
    }
    expect(names).toEqual(['SUMMARY', ...Array(5).fill('TABLE')]);
    await page.waitForFunction('document.activeElement.scrollLeft > 0');
    await close();
  });
});
