import type { Browser, Route } from 'playwright-core';
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

/** Thirty days of several operations, some with errors or deprecated calls. */
const USAGE = `
  INSERT INTO usage (key_id, starts_at, client, operation, deprecated, requests, cost, errors, refused, last_at)
  SELECT $1, date_trunc('day', now(), 'UTC') - day * interval '1 day', client, operation, deprecated,
         weight * (20 + day * 7 % 13), weight * (20 + day * 7 % 13), CASE WHEN day % 9 = 4 THEN 12 ELSE 0 END, 0, now()
  FROM generate_series(0, 29) AS day, (VALUES
    ('shop-web', 'ShopWindow', '', 9), ('shop-web', 'OldLookup', 'Query.pet', 2), ('', 'GET /v1/pets', '', 4),
    ('nightly', 'Export', '', 3), ('till', 'AddAnimal', '', 1), ('till', 'Stock', '', 1), ('', 'Search', '', 1)
  ) AS used (client, operation, deprecated, weight)
  WHERE (deprecated = '' OR day > 5) AND (day + weight) % 7 > 0`;

describeInBrowser('the page of a key', () => {
  let gateway: Gateway;
  let browser: Browser;

  beforeAll(async () => {
    gateway = await startGateway('server', { NODE_ENV: 'production', KEY_PAGE: 'true', KEY_SELF_ROTATION: 'true' });
    browser = await startBrowser();
  }, 120_000);
  afterAll(async () => {
    await browser.close();
    await gateway.close();
  });

  async function createUsedKey(): Promise<string> {
    const { id, key } = await gateway.createKey({ plan: 'free', label: 'shop' });
    await gateway.sql(USAGE, [id]);
    const headers = { Authorization: `Bearer ${key}` };
    for (let count = 0; count < 50; count++) await gateway.fetch('/v1/pets', { headers });
    return key;
  }

  it.each(LOOKS)('has no fault: $look', async ({ look, options }) => {
    // Its policy would not let the page run axe.
    const { page, origins, complaints, close } = await openPage(browser, { ...options, bypassCSP: true });
    await page.goto(`${gateway.url}/key`);
    expect(await findFaults(page)).toEqual([]);
    await photograph(page, `key-${look}-empty`);
    await page.getByLabel('API key').fill(await createUsedKey());
    await page.keyboard.press('Enter');
    await page.getByText('10 of 60 a minute').waitFor();
    expect(await overflowOf(page)).toBe(0);
    expect(await findFaults(page)).toEqual([]);
    await photograph(page, `key-${look}`);
    await page.getByText('The numbers', { exact: true }).click();
    await page.getByRole('cell', { name: 'ShopWindow' }).first().waitFor();
    expect(await overflowOf(page)).toBe(0);
    expect(await findFaults(page)).toEqual([]);
    await page.getByRole('heading', { name: 'What it has used' }).scrollIntoViewIfNeeded();
    await photograph(page, `key-${look}-numbers`);
    await page.getByRole('button', { name: 'Make a new secret' }).click();
    await page.getByText(/^pets_\w{38}$/).waitFor();
    expect(await overflowOf(page)).toBe(0);
    expect(await findFaults(page)).toEqual([]);
    await photograph(page, `key-${look}-rotated`);
    expect(origins).toEqual(new Set([gateway.url]));
    expect(complaints).toEqual([]);
    await close();
  });

  it('answers, by the keyboard alone, what used up the day, and replaces the secret', async () => {
    const old = await createUsedKey();
    const { page, origins, complaints, close } = await openPage(browser, { viewport: { width: 1280, height: 800 } });
    await page.goto(`${gateway.url}/key`);
    await page.getByLabel('API key').focus();
    await page.keyboard.insertText(`Bearer ${old} `);
    await page.keyboard.press('Enter');
    await page.getByText(/^Today \d+ requests, \d+ of them by ShopWindow of shop-web/).waitFor();
    const advice = page.getByText('Query.pet', { exact: true }).locator('..');
    expect(await advice.innerText()).toMatch(
      /calls, last on .*, by OldLookup of shop-web\. .*the list of animals with the status filter/,
    );
    const resets = (): Promise<string> => page.getByText(/\d+ of 60 a minute, resets in \d+ s/).innerText();
    const first = await resets();
    await expect.poll(resets).not.toBe(first);

    const marks = page.locator('#plot .error, #plot .deprecated');
    expect(await marks.count()).toBeGreaterThan(10);
    expect((await page.locator('#plot rect').count()) / 30).toBeGreaterThan(3);

    await page.getByRole('button', { name: 'Make a new secret' }).press('Enter');
    const secret = await page.getByText(/^pets_\w{38}$/).innerText();
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Copy');
    await page.getByText(/^This is the new secret\. Copy it now/).waitFor();
    await page.getByText(/^The old secret works until .* Until then, the new one cannot be replaced\.$/).waitFor();
    const statusOf = async (key: string): Promise<number> =>
      (await gateway.fetch('/v1/key', { headers: { Authorization: `Bearer ${key}` } })).status;
    expect([await statusOf(old), await statusOf(secret)]).toEqual([200, 200]);
    // The tab has the new secret, and a new tab has none.
    await page.reload();
    expect(await page.getByLabel('API key').inputValue()).toBe(secret);
    expect(await page.evaluate('localStorage.length')).toBe(0);
    const other = await page.context().newPage();
    await other.goto(`${gateway.url}/key`);
    expect(await other.getByLabel('API key').inputValue()).toBe('');
    await page.getByLabel('API key').fill(old);
    await page.keyboard.press('Enter');
    await page.getByText(/^This secret was replaced by a new one, and works until/).waitFor();
    expect(origins).toEqual(new Set([gateway.url]));
    expect(complaints).toEqual([]);
    await close();
  });

  it('shows the new secret, and the reason, when what it may cannot be asked', async () => {
    const { page, close } = await openPage(browser);
    await page.goto(`${gateway.url}/key`);
    await page.getByLabel('API key').fill((await gateway.createKey()).key);
    await page.keyboard.press('Enter');
    const rotate = page.getByRole('button', { name: 'Make a new secret' });
    await rotate.waitFor();
    await page.route('**/v1/key', (route) => route.abort());
    await rotate.click();
    await page.getByRole('status').getByText('The server cannot be reached.').waitFor();
    expect(await page.getByText('This is the new secret. Copy it now').isVisible()).toBe(true);
    expect(await page.getByText(/^pets_\w{38}$/).isVisible()).toBe(true);
    await close();
  });

  it('keeps the secret that it has if something else answers in place of the server', async () => {
    const { key } = await gateway.createKey();
    const { page, close } = await openPage(browser);
    await page.goto(`${gateway.url}/key`);
    await page.getByLabel('API key').fill(key);
    await page.keyboard.press('Enter');
    await page.route('**/v1/key/rotate', (route) => route.fulfill({ contentType: 'text/html', body: '<p>Log in' }));
    await page.getByRole('button', { name: 'Make a new secret' }).click();
    await page.getByRole('status').getByText('The response, with status 200, is not complete JSON.').waitFor();
    await page.route('**/v1/key/rotate', (route) => route.fulfill({ status: 403, json: { error: 'forbidden' } }));
    await page.getByRole('button', { name: 'Make a new secret' }).click();
    await page.getByRole('status').getByText('The response has status 403.').waitFor();
    expect(await page.getByText('This is the new secret').isVisible()).toBe(false);
    expect(await page.evaluate(`sessionStorage['animal-store:key']`)).toBe(key);
    await close();
  });

  it('shows a key that has used nothing, behind a proxy with a limit of its own', async () => {
    const { id, key } = await gateway.createKey({ plan: 'free' });
    await gateway.sql(
      `INSERT INTO usage (key_id, starts_at, client, operation, deprecated, requests, cost, errors, refused, last_at)
       VALUES ($1, date_trunc('day', now(), 'UTC'), 'key page', 'GET /v1/key', '', 1, 0, 0, 0, now())`,
      [id],
    );
    const { page, close } = await openPage(browser);
    await page.route('**/v1/key', async (route) => {
      const response = await route.fetch();
      const headers = { ...response.headers() };
      headers.ratelimit = `"facts";r=5;t=1, ${headers.ratelimit ?? ''}`;
      await route.fulfill({ response, headers });
    });
    await page.goto(`${gateway.url}/key`);
    await page.getByLabel('API key').fill(key);
    await page.keyboard.press('Enter');
    await page.getByText(/^Today 0 requests\. In 30 days 0\./).waitFor();
    await page.getByText('60 of 60 a minute').waitFor();
    expect(await page.getByRole('status').innerText()).toBe('');
    await close();
  });

  it.each([-26, 26])('shows the right numbers in a browser whose clock is %i hours off', async (hours) => {
    const key = await createUsedKey();
    const { page, close } = await openPage(browser);
    await page.clock.setSystemTime(Date.now() + hours * 3_600_000);
    await page.goto(`${gateway.url}/key`);
    await page.getByLabel('API key').fill(key);
    await page.keyboard.press('Enter');
    await page.getByText(/^10 of 60 a minute, resets in \d+ s$/).waitFor();
    await page.getByText(/^Today \d+ requests, \d+ of them/).waitFor();
    const dates = await page.locator('#plot text').allTextContents();
    const [first, last] = await gateway.sql(
      `SELECT to_char(now() AT TIME ZONE 'UTC' - day * interval '1 day', 'YYYY-MM-DD') AS day FROM unnest(ARRAY[29, 0]) AS day`,
    );
    expect(dates.slice(-2)).toEqual([first?.day, last?.day]);
    await close();
  });

  it('replaces no secret but that of the key that it shows', async () => {
    const keys = [await gateway.createKey({ label: 'one' }), await gateway.createKey({ label: 'two' })] as const;
    const { page, close } = await openPage(browser);
    await page.goto(`${gateway.url}/key`);
    const show = async (key: string): Promise<void> => {
      await page.getByLabel('API key').fill(key);
      await page.keyboard.press('Enter');
    };
    const rotate = page.getByRole('button', { name: 'Make a new secret' });
    await show(keys[0].key);
    await page.getByText(/"one"/).waitFor();
    expect(await rotate.isVisible()).toBe(true);
    // The answer for the second key is late, and so is a failure for the first.
    const held: Route[] = [];
    await page.route('**/v1/key', (route) => void held.push(route));
    await show(keys[0].key);
    await show(keys[1].key);
    await expect.poll(() => held).toHaveLength(2);
    expect([await page.getByText(/"one"/).isVisible(), await rotate.isVisible()]).toEqual([false, false]);
    await held[1]?.continue();
    await page.getByText(/"two"/).waitFor();
    await held[0]?.abort();
    await page.unroute('**/v1/key');
    await rotate.click();
    await page.getByText(/^pets_\w{38}$/).waitFor();
    await page.getByText('The secret was replaced.').waitFor();
    const rotated = await gateway.sql(
      'SELECT label FROM api_keys WHERE label = ANY($1) AND previous_ends_at IS NOT NULL',
      [['one', 'two']],
    );
    expect(rotated).toEqual([{ label: 'two' }]);
    await close();
  });

  it('ignores the late failure of an earlier request for the same key', async () => {
    const { key } = await gateway.createKey({ label: 'three' });
    const { page, close } = await openPage(browser);
    await page.goto(`${gateway.url}/key`);
    await page.getByLabel('API key').fill(key);
    const held: Route[] = [];
    await page.route('**/v1/key', (route) => void held.push(route));
    for (const count of [1, 2]) {
      await page.keyboard.press('Enter');
      await expect.poll(() => held).toHaveLength(count);
    }
    await held[1]?.continue();
    await page.getByText(/"three"/).waitFor();
    const failed = page.waitForEvent('requestfailed');
    await held[0]?.abort();
    await failed;
    await page.waitForTimeout(200);
    expect(await page.getByRole('status').innerText()).toBe('');
    expect(await page.getByText(/"three"/).isVisible()).toBe(true);
    await close();
  });

  it('says what is wrong with a key', async () => {
    const { page, close } = await openPage(browser);
    await page.goto(`${gateway.url}/key`);
    for (const [text, message] of [
      ['pets_x', /not a complete key/],
      ['schlüssel→', /a character that no key has/],
    ] as const) {
      await page.getByLabel('API key').fill(text);
      await page.keyboard.press('Enter');
      await page.getByRole('status').getByText(message).waitFor();
      expect(await page.getByText('What is left').isVisible()).toBe(false);
    }
    await close();
  });
});
