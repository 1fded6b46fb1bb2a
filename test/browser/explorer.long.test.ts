import type { Browser, Locator, Page, Route } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import {
  describeInBrowser,
  LOOKS,
  openPage,
  overflowOf,
  photograph,
  startBrowser,
  type WatchedPage,
} from '../support/browser.js';
import { startGateway, startProxyBefore, type Gateway } from '../support/gateway.js';
import { startShortWindowStore } from '../support/short-window-store.js';

const EXAMPLES = ['ListPets', 'AddPet', 'GetPet', 'ListByStatus', 'Budget', 'DescribeFields'];
const MADE_UP = 'pets_notavalidkey';

describeInBrowser('the offline explorer', () => {
  let gateway: Gateway;
  let browser: Browser;
  const opened: WatchedPage[] = [];

  beforeAll(async () => {
    gateway = await startGateway('embedded', { NODE_ENV: 'development', SAMPLE_DATA: 'true' });
    browser = await startBrowser();
  }, 120_000);
  afterEach(async () => {
    for (const { close } of opened.splice(0)) await close();
  });
  afterAll(async () => {
    await browser.close();
    await gateway.close();
  });

  async function open(options?: Parameters<typeof openPage>[1], search = ''): Promise<WatchedPage> {
    const watched = await openPage(browser, options);
    opened.push(watched);
    const { key } = await gateway.createKey({ plan: 'free' });
    await watched.page.addInitScript(`sessionStorage['animal-store:key'] ??= '${key}'`);
    await watched.page.goto(`${gateway.url}/explorer${search}`);
    // The example and the schema have loaded, and the key was accepted.
    await watched.page.locator('.graphiql-query-editor .CodeMirror-code').waitFor();
    await watched.page.getByText('free plan').waitFor();
    await watched.page.getByLabel('Show Documentation Explorer').waitFor();
    return watched;
  }

  it('opens with an example, runs it and shows the remaining requests', async () => {
    const { page, origins, complaints } = await open();
    expect(await page.locator('.graphiql-tab').allInnerTexts()).toEqual(EXAMPLES);
    const before = await remaining(page);
    await run(page);
    const animals = await result(page, 'Bella');
    expect(new Set((animals.data.pets as { status: string }[]).map(({ status }) => status))).toEqual(
      new Set(['AVAILABLE']),
    );
    await expect.poll(() => remaining(page)).toEqual(before.map((left) => left - 1));
    expect(origins).toEqual(new Set([gateway.url]));
    expect(complaints).toEqual([]);
  });

  it('keeps its tabs over a reload, also if the schema has not loaded', async () => {
    const watched = await openPage(browser);
    opened.push(watched);
    const { page } = watched;
    await page.route('**/graphql', (route) => route.abort());
    await page.goto(`${gateway.url}/explorer`);
    await expect.poll(() => page.evaluate("sessionStorage.getItem('graphiql:tabState')")).not.toBeNull();
    await page.unroute('**/graphql');
    for (let reloads = 0; reloads < 2; reloads++) {
      await page.reload();
      await page.locator('.graphiql-query-editor').getByText('ListPets').waitFor();
      await page.locator('.graphiql-editor-tool').getByText('"after"').waitFor();
      expect(await page.locator('.graphiql-tab').allInnerTexts()).toEqual(EXAMPLES);
      await page.getByLabel('Show Documentation Explorer').waitFor();
    }
  });

  it('gets the development keys from the printed address, and switches between them', async () => {
    const watched = await openPage(browser);
    opened.push(watched);
    const { page } = watched;
    await page.route('**/development-keys', (route) => route.abort(), { times: 1 });
    // The tab may have had the explorer before.
    await page.goto(`${gateway.url}/explorer`);
    await page.getByLabel('API key').waitFor();
    await page.goto(gateway.explorerUrl as string);
    await page.getByText('The server cannot be reached.').waitFor();
    await page.reload();
    await page.getByText('free plan').waitFor();
    expect(page.url()).toBe(`${gateway.url}/explorer`);
    await page.getByLabel('Development key').selectOption('business');
    await page.getByText('business plan').waitFor();
    await page.reload();
    await page.getByText('business plan').waitFor();
    expect(await page.getByLabel('Development key').locator('option').allInnerTexts()).toContain('pro');
    // In a second tab the token has been used, and the tab shares no key with the first.
    const other = await page.context().newPage();
    await other.goto(gateway.explorerUrl as string);
    await other
      .getByText('The token is not valid. Each start of the server prints a new one, which works once.')
      .waitFor();
  });

  it('opens the operation of a link, and copies it as a link and as code', async () => {
    const { key: other } = await gateway.createKey();
    const query = 'query Linked($id: ID!) { pet(id: $id) { name } }';
    const variables = '{"id":9223372036854775807}';
    const search = `?${new URLSearchParams({ query, variables }).toString()}`;
    const { page } = await open({ permissions: ['clipboard-read', 'clipboard-write'] }, search);
    const key = await page.getByLabel('API key').inputValue();
    await page.locator('.graphiql-query-editor').getByText('Linked').first().waitFor();
    const copy = async (label: string, message: string): Promise<string> => {
      await page.getByLabel('Copy as code or link').click();
      await page.getByRole('menuitem', { name: label }).click();
      await page.getByText(message).waitFor();
      return page.evaluate('navigator.clipboard.readText()');
    };
    const link = new URL(await copy('Copy a link', 'Link copied. It contains no key.'));
    expect(Object.fromEntries(link.searchParams)).toEqual({ query, variables });
    for (const headers of ['', `{ "authorization": "Bearer ${other}", "Idempotency-Key": "one" }`]) {
      if (headers !== '') {
        await page.getByRole('button', { name: 'Headers' }).click();
        await type(page, '.graphiql-editor-tool .graphiql-editor:not(.hidden)', headers);
      }
      for (const program of ['curl', 'fetch']) {
        const withKey = await copy(`Copy as ${program}, with your key`, 'Code copied. It contains your key.');
        // A header of the editor replaces the key, as it does when the operation runs.
        expect(withKey).toContain(`Bearer ${headers === '' ? key : other}`);
        const withoutKey = await copy(`Copy as ${program}, with YOUR_KEY`, 'Write a key in place of YOUR_KEY.');
        expect(withoutKey).toContain('Bearer YOUR_KEY');
        for (const secret of [key, other]) expect(withoutKey).not.toContain(secret);
        for (const code of [withKey, withoutKey]) {
          expect(code).toContain('9223372036854775807');
          expect(code.match(/authorization/gi)).toHaveLength(1);
          expect(code.includes('one')).toBe(headers !== '');
        }
      }
    }
  });

  it('keeps what the user has changed after a link over a reload', async () => {
    const { page } = await open({}, `?query=${encodeURIComponent('query Linked { rateLimit { plan } }')}`);
    await type(page, '.graphiql-query-editor', 'query Changed { rateLimit { plan } }');
    await tab(page, 'Changed').waitFor();
    for (let reloads = 0; reloads < 2; reloads++) {
      await page.waitForTimeout(1_000);
      await page.reload();
      await page.locator('.graphiql-query-editor').getByText('Changed').waitFor();
      expect(await page.locator('.graphiql-tab').allInnerTexts()).toEqual(['Changed', ...EXAMPLES]);
    }
  });

  it('copies no link that servers would refuse', async () => {
    const { page } = await open({ permissions: ['clipboard-read', 'clipboard-write'] });
    const copied = (): Promise<string> => page.evaluate('navigator.clipboard.readText()');
    const before = await copied();
    await page.locator('.graphiql-query-editor .CodeMirror').first().click();
    await page.keyboard.insertText(`# ${'x'.repeat(8_000)}\n`);
    await page.getByLabel('Copy as code or link').click();
    await page.getByText('Copy a link').click();
    await page.getByText('The operation is too long for a link.').waitFor();
    expect(await copied()).toBe(before);
  });

  it('copies nothing and says why, when the headers are not valid', async () => {
    const { page } = await open();
    await page.getByRole('button', { name: 'Headers' }).click();
    await type(page, '.graphiql-editor-tool .graphiql-editor:not(.hidden)', '{ "X" }');
    await page.getByLabel('Copy as code or link').click();
    await page.getByText('Copy as curl, with your key').click();
    await page.getByText('Nothing was copied: the headers are not valid.').waitFor();
  });

  it('keeps the history of a tab over a reload', async () => {
    const { page } = await open();
    await run(page);
    await result(page, 'Bella');
    await page.reload();
    await page.getByLabel('Show History').click();
    await page.locator('.graphiql-history').getByText('ListPets').first().waitFor();
  });

  it.each([390, 1280])('shows the response after a run, %i pixels wide', async (width) => {
    const { page } = await open({ viewport: { width, height: 844 } });
    const isInView = async (): Promise<boolean> => {
      const box = await page.locator('.graphiql-response').boundingBox();
      return box !== null && box.y >= 0 && box.y + box.height <= 844;
    };
    expect(await isInView()).toBe(width === 1280);
    await run(page);
    await result(page, 'Bella');
    await expect.poll(isInView).toBe(true);
    // So does a failure.
    await page.evaluate('scrollTo(0, 0)');
    await type(page, '.graphiql-query-editor', '{ nothing }');
    await run(page);
    await page.locator('.result-window').getByText('errors').first().waitFor();
    await expect.poll(isInView).toBe(true);
  });

  it('runs a typed operation', async () => {
    const { page, complaints } = await open();
    await type(page, '.graphiql-query-editor', '{ pets(status: SOLD) { name } }');
    await run(page);
    expect((await result(page, 'Luna')).data.pets).toContainEqual({ name: 'Luna' });
    expect(complaints).toEqual([]);
  });

  it('shows what the query would cost while the user types, and sends nothing that has no price', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 53, perDay: 1_000 } });
    const { page, complaints } = await open();
    await enterKey(page, key);
    await page.getByText('enterprise plan').waitFor();
    const price = page.locator('.price');
    await page.getByText('Costs 1 of the 53 left this minute').waitFor();
    const sent: string[] = [];
    page.on('request', (request) => sent.push(request.postData() ?? ''));
    const aliases = Array.from({ length: 7 }, (_, index) => `p${index}: pets(limit: ${index + 1}) { id }`).join(' ');
    await type(page, '.graphiql-query-editor', `{ ${aliases} }`);
    await page.getByText('Costs 7 of the 53 left this minute').waitFor();
    expect(sent.every((body) => body.includes('dryRun:true'))).toBe(true);
    expect(sent.length).toBeLessThan(10);
    await run(page);
    await page.getByText('Costs 7 of the 46 left this minute').waitFor();
    // A query that is not valid, one without its variables, and a mutation.
    for (const operation of ['{ pets { na } }', 'qery', 'query ($id: ID!) { pet(id: $id) { id } }']) {
      await type(page, '.graphiql-query-editor', operation);
      await price.waitFor({ state: 'detached' });
    }
    await tab(page, 'AddPet').click();
    await price.waitFor({ state: 'detached' });
    await tab(page, 'ListByStatus').click();
    await page.getByText('Costs 2 of the 46 left this minute').waitFor();
    // Nobody knows which of several will run.
    await type(page, '.graphiql-query-editor', 'query One { pets { id } } query Two { pets(limit: 1) { id } }');
    await price.waitFor({ state: 'detached' });
    await type(page, '.graphiql-query-editor', '{ a: pets { id } b: pets(limit: 2) { id } }');
    await page.getByText('Costs 2 of the 46 left this minute').waitFor();
    await page.clock.setFixedTime(Date.now() + 60_000);
    await page.getByText('Costs 2 of the 53 left this minute').waitFor();
    sent.length = 0;
    await enterKey(page, '');
    await type(page, '.graphiql-query-editor', '{ pets { id } }');
    await page.waitForTimeout(2_000);
    expect([await price.count(), sent]).toEqual([0, []]);
    expect(complaints).toEqual([]);
    expect(await remainingOf(key)).toBe('46');
  });

  async function remainingOf(key: string): Promise<string | null> {
    const { headers } = await gateway.graphql('{ __typename }', { key });
    return headers.get('x-ratelimit-remaining');
  }

  it('shows what the key in use has left, also when a response for another key arrives late', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 53, perDay: 1_000 } });
    const { page } = await open();
    const held: Route[] = [];
    await page.route('**/graphql', async (route) => {
      if (/^(?!.*dryRun).*pets\(/.test(route.request().postData() ?? '')) held.push(route);
      else await route.continue();
    });
    await run(page);
    await expect.poll(() => held).toHaveLength(1);
    await enterKey(page, key);
    await page.getByText('enterprise plan').waitFor();
    await held[0]?.continue();
    await result(page, 'Bella');
    expect(await remaining(page)).toEqual([53, 1_000]);
  });

  it('has a working example of every operation', async () => {
    const { page } = await open();
    const members = ['pets', 'addPet', 'pet', 'available', 'rateLimit', '__type'];
    for (const [index, name] of EXAMPLES.entries()) {
      await tab(page, name).click();
      await run(page);
      const { data, errors } = await result(page, `"${members[index] as string}"`);
      expect(errors).toBeUndefined();
      expect(Object.values(data as object)).not.toContain(null);
    }
  });

  it('explains what to do if the key is missing or invalid', async () => {
    const { page } = await open();
    await enterKey(page, '');
    await page.getByText('Running an operation needs an API key.').waitFor();
    await run(page);
    await page.getByText('401: UNAUTHENTICATED.').waitFor();
    expect((await result(page, 'UNAUTHENTICATED')).data).toBeUndefined();
    expect(await page.getByRole('link', { name: 'The front page' }).getAttribute('href')).toBe('./#hint');
    await enterKey(page, MADE_UP);
    await page.getByText('This is not a complete key:').waitFor();
    const { key } = await gateway.createKey({ plan: 'pro' });
    await enterKey(page, `Bearer ${key}`);
    await page.getByText('pro plan').waitFor();
    expect(await page.locator('.notices').innerText()).toBe('');
  });

  it('shows the documentation even with an invalid key', async () => {
    const { page } = await open();
    await enterKey(page, MADE_UP);
    await page.reload();
    await openQueryType(page);
    await page.locator('.graphiql-doc-explorer').getByText("The store's animals").waitFor();
  });

  it('loads the schema with a key if it needs one, as soon as there is one', async () => {
    const production = await startGateway('server', {
      NODE_ENV: 'production',
      EXPLORER: 'true',
      INTROSPECTION: 'true',
    });
    const { page, close } = await openPage(browser);
    // Behind some gateways, responses state no limits. A 429 takes the place of many a 401.
    await page.route('**/graphql', async (route) => {
      const response = await route.fetch();
      const { ratelimit: _, 'ratelimit-policy': __, ...headers } = response.headers();
      const status = response.status() === 401 ? 429 : response.status();
      await route.fulfill({ response, status, headers });
    });
    await page.goto(`${production.url}/explorer`);
    await page.locator('.graphiql-query-editor .CodeMirror-code').waitFor();
    const documentation = page.locator('.graphiql-doc-explorer').getByText("The store's animals");
    await enterKey(page, MADE_UP);
    await page.getByText('This is not a complete key:').waitFor();
    await enterKey(page, (await production.createKey()).key);
    await openQueryType(page);
    await documentation.waitFor();
    await page.reload();
    await openQueryType(page);
    await documentation.waitFor();
    await close();
    await production.close();
  });

  it('works in a browser that forbids storage', async () => {
    const { page, complaints, close } = await openPage(browser);
    await page.addInitScript(
      `Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('Access is denied.'); } })`,
    );
    await page.goto(`${gateway.url}/explorer`);
    await enterKey(page, (await gateway.createKey()).key);
    await run(page);
    await result(page, 'Bella');
    expect(complaints).toEqual([]);
    await close();
  });

  it('shows with the colors of the system how to run an operation, and what is open', async () => {
    const { page } = await open({ forcedColors: 'active' });
    const [ground, triangle] = await page.evaluate<string[]>(
      `['.graphiql-execute-button', '.graphiql-execute-button svg'].map((one, index) =>
        getComputedStyle(document.querySelector(one))[index === 0 ? 'backgroundColor' : 'color'])`,
    );
    expect(triangle).not.toBe(ground);
    const underlined = `[...document.querySelectorAll('.graphiql-tab-button, .graphiql-editor-tools button')]
      .filter((one) => getComputedStyle(one).textDecorationLine === 'underline').map((one) => one.textContent)`;
    await expect.poll(() => page.evaluate(underlined)).toEqual(['ListPets', 'Variables']);
    await photograph(page, 'explorer-forced-colors');
  });

  it('marks deprecated fields in the editor, in the documentation and after the operation', async () => {
    const { page, complaints } = await open();
    await tab(page, 'GetPet').click();
    const mark = page.locator('.CodeMirror-lint-mark-warning').first();
    await mark.waitFor();
    expect(await mark.innerText()).toContain('pet');
    const decoration = "getComputedStyle(document.querySelector('.CodeMirror-lint-mark-warning')).textDecorationLine";
    expect(await page.evaluate(decoration)).toBe('line-through');
    await run(page);
    await page.getByText('Query.pet is deprecated.').waitFor();
    expect(await page.locator('.notices').innerText()).toContain('2030-12-05');
    await openQueryType(page);
    const documentation = page.locator('.graphiql-doc-explorer');
    await documentation.getByText('Show Deprecated Fields').click();
    await documentation.getByText('Will be removed on 5 December 2030. Use pets with the status filter.').waitFor();
    expect(complaints).toEqual([]);
  });

  it('shows how long to wait when the limit is reached', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 10 } });
    const { page } = await open();
    await enterKey(page, key);
    await page.getByText('enterprise plan').waitFor();
    await run(page);
    await expect.poll(() => remaining(page)).toEqual([0, 9]);
    await run(page);
    await page.getByText('429: RATE_LIMITED.').waitFor();
    // Not as part of the text: a screen reader would read it each second.
    await page
      .getByRole('timer')
      .filter({ hasText: /Again in \d+ s\./ })
      .waitFor();
  });

  it('never says that a window ends later than it can', async () => {
    const { key } = await gateway.createKey({ plan: 'business' });
    const { page } = await open();
    await enterKey(page, key);
    await page.getByText('business plan').waitFor();
    // Between two ticks of the clock.
    await page.waitForTimeout(500);
    await run(page);
    await page
      .getByText(/resets in/)
      .first()
      .waitFor();
    expect(await page.locator('.budget').innerText()).toMatch(/a minute, resets in (?:60|5\d) s/);
  });

  it('runs the operation again after a 429, when its time has come', async () => {
    const store = await startShortWindowStore({ limit: 1, seconds: 10 });
    const proxy = await startProxyBefore(store.url, { EXPLORER: 'true' });
    const { page, close } = await openPage(browser);
    await page.goto(`${proxy.url}/explorer`);
    await enterKey(page, 'short');
    await run(page);
    await result(page, '"pets"');
    await run(page);
    await page.getByText(/Again in \d+ s\./).waitFor();
    const again = page.getByRole('button', { name: 'Run again' });
    expect(await again.count()).toBe(0);
    await again.waitFor();
    await tab(page, 'AddPet').click();
    await again.waitFor({ state: 'detached' });
    await tab(page, 'ListPets').click();
    await again.click();
    await result(page, '"pets"');
    await again.waitFor({ state: 'detached' });
    expect(await page.locator('.graphiql-execute-button:focus').count()).toBe(1);
    await close();
    await proxy.close();
    await store.close();
  });

  it('works before a gateway, which does not know the plan of a key', async () => {
    const proxy = await startProxyBefore(`${gateway.url}/v1`, { EXPLORER: 'true' });
    const { page, complaints, close } = await openPage(browser);
    try {
      const { key } = await gateway.createKey();
      await proxy.graphql('{ pets { id } }', { key });
      await page.goto(`${proxy.url}/explorer`);
      await enterKey(page, key);
      await page.getByText('a minute').waitFor();
      await page.reload();
      // The page has its key, its limits and the schema.
      await page.locator('.price').waitFor();
      await run(page);
      await result(page, 'Bella');
      expect(complaints).toEqual([]);
    } finally {
      await close();
      await proxy.close();
    }
  });

  it('explains a response that is JSON, but no result', async () => {
    const { page } = await open();
    await page.route('**/graphql', (route) => route.fulfill({ json: null }));
    await run(page);
    await result(page, 'The response, with status 200, is not complete JSON. It may come from a proxy.');
  });

  it('keeps the key in this tab only, and never in a URL', async () => {
    const { key } = await gateway.createKey({ plan: 'business' });
    const { page } = await open();
    const addresses: string[] = [];
    page.on('request', (request) => addresses.push(request.url()));
    await enterKey(page, key);
    await page.getByText('business plan').waitFor();
    await run(page);
    await result(page, 'Bella');
    await page.reload();
    await page.getByText('business plan').waitFor();
    expect(await page.getByLabel('API key').inputValue()).toBe(key);
    expect(await page.evaluate('JSON.stringify({ ...localStorage })')).not.toContain(key);
    expect(await page.evaluate('document.cookie')).toBe('');
    expect([...addresses, page.url()].join()).not.toContain(key);
    const other = await page.context().newPage();
    await other.goto(`${gateway.url}/explorer`);
    await other.getByText('Running an operation needs an API key.').waitFor();
    expect(await other.getByLabel('API key').inputValue()).toBe('');
  });

  it('the front page has the key in use, also after Back', async () => {
    const withPageCache = await startBrowser(['--disable-back-forward-cache']);
    const { page } = await openPage(withPageCache);
    const keys = [await gateway.createKey(), await gateway.createKey()].map(({ key }) => key) as [string, string];
    await page.goto(`${gateway.url}/explorer`);
    await enterKey(page, keys[0]);
    await page.getByRole('link', { name: 'Animal store' }).click();
    await page.getByText(keys[0]).waitFor();
    await page.getByRole('link', { name: 'GraphQL explorer' }).click();
    await enterKey(page, keys[1]);
    // Playwright would wait for a page that loads.
    await page.evaluate('void setTimeout(() => history.back())');
    await page.getByText(keys[1]).waitFor();
    // The explorer, as it was with the first key.
    await page.evaluate('void setTimeout(() => history.back())');
    await expect.poll(() => page.getByLabel('API key').inputValue()).toBe(keys[1]);
    await withPageCache.close();
  });

  it('keeps the history in this tab only, and explains a request without a response', async () => {
    const { key } = await gateway.createKey({ plan: 'business' });
    const { page } = await open();
    await page.getByRole('button', { name: 'Headers' }).click();
    await type(
      page,
      '.graphiql-editor-tool .graphiql-editor:not(.hidden)',
      JSON.stringify({ Authorization: `Bearer ${key}` }),
    );
    await run(page);
    await result(page, 'Bella');
    expect(await page.evaluate('JSON.stringify({ ...sessionStorage })')).toContain('graphiql:queries');
    expect(await page.evaluate('JSON.stringify({ ...localStorage })')).toBe('{}');
    await enterKey(page, 'pets_…');
    await page.getByText('has a character that headers cannot carry').first().waitFor();
  });

  it.each(['9007199254740993', '1e400'])('never silently rounds identifiers: %s', async (id) => {
    const { page } = await open();
    await tab(page, 'GetPet').click();
    await type(page, '.graphiql-editor-tool', `{ "id": ${id} }`);
    await run(page);
    await page.locator('.result-window').getByText('Write it in quotes').first().waitFor();
  });

  it('can neither send requests to another server nor run its scripts', async () => {
    const { page, complaints } = await open();
    const outcome = await page.evaluate<string>(`fetch('http://localhost:1/').catch((error) => error.message)`);
    expect(outcome).toContain('Failed to fetch');
    await page.evaluate(
      `document.head.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' }))`,
    );
    expect(await page.evaluate('window.ran')).toBeUndefined();
    await expect.poll(() => complaints.join()).toContain(`directive: "connect-src 'self'"`);
    await expect.poll(() => complaints.join()).toContain(`directive 'script-src 'self''`);
  });

  const LOW = { look: 'low-light', options: { viewport: { width: 844, height: 390 } } };

  it.each([...LOOKS, LOW])('fits the window: $look', async ({ look, options }) => {
    const { page, complaints } = await open(options);
    await run(page);
    await result(page, 'Bella');
    expect((await page.locator('.result-window').boundingBox())?.height).toBeGreaterThan(100);
    // Its own scrolling would hide the tabs for good.
    expect(await page.evaluate(`document.querySelector('.graphiql-container').scrollTop`)).toBe(0);
    const tools = page.locator('.graphiql-toolbar .graphiql-un-styled');
    expect(await tools.allInnerTexts()).toEqual(['Prettify', 'Merge', 'Copy', 'Copy as…']);
    await photograph(page, `explorer-${look}-list`);
    expect(await overflowOf(page)).toBe(0);
    await tab(page, 'GetPet').click();
    await run(page);
    await page.getByText('Query.pet is deprecated.').waitFor();
    expect((await page.locator('.graphiql-editor-tool').boundingBox())?.height).toBeGreaterThan(100);
    await openQueryType(page);
    await page.getByText('Show Deprecated Fields').click();
    await photograph(page, `explorer-${look}-deprecated`);
    expect(await overflowOf(page)).toBe(0);
    await page.getByLabel('Hide Documentation Explorer').click();
    await enterKey(page, '');
    await run(page);
    await page.getByText('401: UNAUTHENTICATED.').waitFor();
    await photograph(page, `explorer-${look}-no-key`);
    expect(await overflowOf(page)).toBe(0);
    await page.getByLabel('Open settings dialog').click();
    await page.getByRole('dialog').waitFor();
    await photograph(page, `explorer-${look}-settings`);
    // Browsers report the one response, a 401, in the console.
    expect(complaints.filter((text) => !text.includes('status of 401'))).toEqual([]);
  });
});

/** The button of a GraphiQL tab. */
function tab(page: Page, name: string): Locator {
  return page.locator('.graphiql-tab-button', { hasText: name });
}

async function run(page: Page): Promise<void> {
  // Without its editors, GraphiQL ignores the button.
  for (const pane of ['.graphiql-query-editor', '.result-window']) await page.locator(`${pane} .CodeMirror`).waitFor();
  await page.locator('.graphiql-execute-button').click();
}

/** The displayed result, once it contains `text`. */
async function result(page: Page, text: string): Promise<{ data: any; errors?: unknown }> {
  const pane = page.locator('.result-window');
  await pane.getByText(text).first().waitFor();
  const whole = await valueOf(pane.locator('.CodeMirror'));
  return JSON.parse(whole) as { data: any; errors?: unknown };
}

/** The remaining requests of each window as the page shows them, the shorter window first. */
async function remaining(page: Page): Promise<number[]> {
  return (await page.locator('.budget b').allInnerTexts()).map((text) => Number(text.replace(',', '')));
}

async function type(page: Page, editor: string, text: string): Promise<void> {
  const root = page.locator(`${editor} .CodeMirror`).first();
  await root.click();
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type(text);
  expect(await valueOf(root)).toBe(text);
}

/** The whole text of an editor, which renders only the visible lines. */
function valueOf(editor: Locator): Promise<string> {
  return editor.evaluate((element) =>
    (element as unknown as { CodeMirror: { getValue(): string } }).CodeMirror.getValue(),
  );
}

async function enterKey(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key);
  await page.keyboard.press('Enter');
}

async function openQueryType(page: Page): Promise<void> {
  await page.getByLabel('Show Documentation Explorer').click();
  await page.locator('.graphiql-doc-explorer').getByRole('link', { name: 'Query', exact: true }).first().click();
}
