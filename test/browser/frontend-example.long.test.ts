import { spawn } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import type { Browser, Page, Route } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeCheckout, type Checkout } from '../docs/checkout.js';
import { readDocument, ROOT } from '../docs/markdown.js';
import {
  describeInBrowser,
  findFaults,
  LOOKS,
  openPage,
  overflowOf,
  photograph,
  startBrowser,
  type WatchedPage,
} from '../support/browser.js';
import { findFreePort } from '../support/free-port.js';
import { startGateway, type Gateway } from '../support/gateway.js';

/** Relative to the example. */
const MANIFEST = 'src/gql/persisted-documents.json';
const MEDIA_TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };

describeInBrowser('the frontend example, installed and built as its README says', () => {
  let gateway: Gateway;
  let browser: Browser;
  let app: Server;
  let url: string;
  let checkout: Checkout;
  let example: string;
  let port: string;
  /** The build that is served. */
  let folder = 'dist';
  const opened: WatchedPage[] = [];

  beforeAll(async () => {
    checkout = await makeCheckout();
    example = join(checkout.directory, 'examples/frontend');
    await rm(join(example, 'src/gql'), { recursive: true });
    const command = readDocument('examples/frontend/README.md').blocks[0]?.text ?? '';
    // The packages are linked already, and the store starts below.
    for (const [, script = ''] of command.matchAll(/npm run (\S+)/g)) await npm(checkout.directory, ['run', script]);
    await npm(example, ['ci', '--no-audit', '--no-fund', '--prefer-offline']);
    port = String(await findFreePort());
    const VITE_STORE_URL = `http://127.0.0.1:${port}/graphql`;
    await npm(example, ['run', 'build'], { VITE_STORE_URL, VITE_TRUSTED_DOCUMENTS: 'true' });
    await npm(example, ['run', 'build', '--', '--outDir', 'dist-plain'], { VITE_STORE_URL });
    gateway = await startStore({ TRUSTED_DOCUMENTS: join(example, MANIFEST), TRUSTED_DOCUMENTS_ONLY: 'true' });
    app = serve(() => join(example, folder));
    await new Promise<void>((ready) => app.listen(0, '127.0.0.1', ready));
    url = `http://localhost:${(app.address() as AddressInfo).port}/`;
    browser = await startBrowser();
  }, 400_000);
  afterEach(async () => {
    for (const { close } of opened.splice(0)) await close();
  });
  afterAll(async () => {
    await browser.close();
    await new Promise((closed) => app.close(closed));
    await gateway.close();
    await checkout.remove();
  });

  function startStore(env: Record<string, string>): Promise<Gateway> {
    return startGateway('embedded', { NODE_ENV: 'development', SAMPLE_DATA: 'true', PORT: port, ...env });
  }

  async function open(key: string, options?: Parameters<typeof openPage>[1]): Promise<WatchedPage> {
    const watched = await openPage(browser, options);
    opened.push(watched);
    await watched.page.goto(url);
    await enterKey(watched.page, key);
    return watched;
  }

  it('lists animals and filters them by status', async () => {
    const { key } = await gateway.createKey();
    const { page, complaints } = await open(key);
    await page.getByText('Bella').waitFor();
    await page.getByLabel('Show').selectOption('SOLD');
    await page.getByText('Luna').waitFor();
    await expect.poll(() => page.getByText('Bella').count()).toBe(0);
    expect(await page.locator('li em').allInnerTexts()).toEqual(['sold']);
    expect(complaints).toEqual([]);
  });

  it('adds an animal, keeps its identifiers exact and shows it in the list', async () => {
    const { key } = await gateway.createKey();
    const { page, complaints } = await open(key);
    await page.getByText('Bella').waitFor();
    await add(page, 'Deep', '9007199254740993');
    await page.getByText('Deep was added').waitFor();
    await page.locator('li', { hasText: 'Deep' }).getByText('category 9007199254740993').waitFor();
    expect(await page.getByLabel('Name').inputValue()).toBe('');
    // What the user types while the store adds an animal stays.
    await page.route('**/graphql', async (route) => {
      if (!(route.request().postData() ?? '').includes('AddPet')) return route.fallback();
      const response = await route.fetch();
      await page.getByLabel('Name').fill('Next');
      await route.fulfill({ response });
    });
    await add(page, 'Slow', '1');
    await page.getByText('Slow was added').waitFor();
    expect(await page.getByLabel('Name').inputValue()).toBe('Next');
    expect(complaints).toEqual([]);
  });

  it('explains an invalid input, on the page or from the store, and keeps what was typed', async () => {
    const { key } = await gateway.createKey();
    const { page } = await open(key);
    await page.getByText('Requests left: 999 of 1000 a minute').waitFor();
    const problemOf = (label: string): Promise<string> =>
      page.getByLabel(label).evaluate((field) => (field as unknown as { validationMessage: string }).validationMessage);
    expect(await problemOf('Name')).not.toBe('');
    await add(page, 'Rex', 'seven');
    expect(await problemOf('Category')).toBe('Category must be a whole number, such as 7.');
    await add(page, 'Rex', '9223372036854775808');
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').innerText()).toContain('The store does not accept this: categoryId');
    expect(await page.getByLabel('Name').inputValue()).toBe('Rex');
  });

  it('adds an animal once if the user tries again after a broken connection', async () => {
    const { key } = await gateway.createKey();
    const { page } = await open(key);
    await page.getByText('Bella').waitFor();
    await page.getByLabel('Status').selectOption('PENDING');
    // The store adds the animal, but its response is lost.
    let lost = 0;
    await page.route('**/graphql', async (route) => {
      if (lost > 0 || !(route.request().postData() ?? '').includes('AddPet')) return route.fallback();
      lost += 1;
      await route.fetch();
      await route.abort();
    });
    await add(page, 'Once', '1');
    await page.getByText('The store cannot be reached.').waitFor();
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByText('Once was added').waitFor();
    expect(await gateway.sql(`SELECT status FROM pets WHERE name = 'Once'`)).toEqual([{ status: 'pending' }]);
  });

  it('explains itself without a key', async () => {
    const watched = await openPage(browser);
    opened.push(watched);
    await watched.page.goto(url);
    await watched.page.getByText('paste one of the API keys').waitFor();
  });

  it('asks for another key if the store rejects this one', async () => {
    const { page } = await open('pets_notavalidkey');
    await page.getByText('The store does not know this key.').waitFor();
    const { key } = await gateway.createKey();
    await enterKey(page, key);
    await page.getByText('Bella').waitFor();
  });

  it('shows what the key in use has left, also when a response for another key arrives late', async () => {
    const { key } = await gateway.createKey();
    const { key: next } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 53, perDay: 100 } });
    const { page } = await open(key);
    await page.getByText('Bella').waitFor();
    const held: Route[] = [];
    await page.route('**/graphql', async (route) => {
      if (route.request().postData()?.includes('AddPet')) held.push(route);
      else await route.continue();
    });
    await add(page, 'Late', '1');
    await expect.poll(() => held).toHaveLength(1);
    await enterKey(page, next);
    await page.getByText('Requests left: 52 of 53 a minute').waitFor();
    await held[0]?.continue();
    await held[0]?.request().response();
    await page.waitForTimeout(500);
    expect(await page.getByText('Requests left').innerText()).toBe('Requests left: 52 of 53 a minute');
  });

  it('counts down when the limit is reached, then retries by itself', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 10 } });
    const { page } = await open(key);
    await page.getByText('Bella').waitFor();
    await page.getByLabel('Show').selectOption('SOLD');
    await page.getByText('The limit of your plan is reached.').waitFor();
    const [wait] = await Promise.all([secondsLeft(page), photograph(page, 'frontend-limit')]);
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(60);
    await expect.poll(() => secondsLeft(page), { timeout: 20_000 }).toBeLessThan(wait);
    await page.getByText('Luna').waitFor({ timeout: 90_000 });
  }, 150_000);

  it('retries when the connection is back', async () => {
    const { key } = await gateway.createKey();
    const { page } = await open(key);
    await page.getByText('Bella').waitFor();
    await page.context().setOffline(true);
    await page.getByLabel('Show').selectOption('SOLD');
    await page.getByText('The store cannot be reached.').waitFor();
    await page.context().setOffline(false);
    await page.getByText('Luna').waitFor();
  });

  it('sends only documents of its manifest, and the store refuses another in one line of its log', async () => {
    const { key } = await gateway.createKey();
    gateway.logged.length = 0;
    const { page } = await open(key);
    await page.getByText('Bella').waitFor();
    const { status, errors } = await gateway.graphql('query Other { pets { id } }', { key });
    expect([status, errors?.[0]?.extensions.code]).toEqual([400, 'DOCUMENT_NOT_TRUSTED']);
    await expect
      .poll(() => gateway.logged.filter(({ path, method }) => path === '/graphql' && method === 'POST'))
      .toMatchObject([
        { status: 200, operations: 'ListPets' },
        { status: 400, untrusted: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) },
      ]);
    expect(gateway.logged.filter(({ untrusted }) => untrusted !== undefined)).toHaveLength(1);
  });

  it('has its manifest in the repository', async () => {
    const [built, committed] = await Promise.all(
      [example, join(ROOT, 'examples/frontend')].map((folder) => readFile(join(folder, MANIFEST), 'utf8')),
    );
    expect(built).toBe(committed);
  });

  it.each(LOOKS)('fits the window: $look', async ({ look, options }) => {
    const { key } = await gateway.createKey();
    const { page } = await open(key, options);
    await page.getByText('Bella').waitFor();
    await photograph(page, `frontend-${look}`);
    expect(await overflowOf(page)).toBe(0);
    expect(await findFaults(page)).toEqual([]);
  });

  describe('with another store', () => {
    beforeAll(() => gateway.close());

    it('runs without the manifest and without an error, from its first request', async () => {
      folder = 'dist-plain';
      gateway = await startStore({});
      const { key } = await gateway.createKey();
      const { page, complaints } = await open(key);
      await page.getByText('Bella').waitFor();
      await page.getByLabel('Show').selectOption('SOLD');
      await page.getByText('Luna').waitFor();
      expect(complaints).toEqual([]);
      await gateway.close();
    });

    it("takes the manifest of Apollo's generator, which has what Apollo Client prints", async () => {
      await npm(example, ['run', 'manifest']);
      const manifest = join(example, 'persisted-query-manifest.json');
      gateway = await startStore({ TRUSTED_DOCUMENTS: manifest, TRUSTED_DOCUMENTS_ONLY: 'true' });
      const { key } = await gateway.createKey();
      const { operations } = JSON.parse(await readFile(manifest, 'utf8')) as {
        operations: { id: string; body: string }[];
      };
      const { id, body = '' } = operations.find(({ body }) => body.includes('ListPets')) ?? {};
      const answer = await gateway.fetch(`/graphql?documentId=${id ?? ''}`, {
        headers: { Authorization: `Bearer ${key}` },
      });
      expect(await answer.json()).toHaveProperty('data.pets.0.name', 'Bella');
      expect((await gateway.graphql(body, { key })).status).toBe(200);
    });
  });
});

/** Runs npm in a folder and waits until it exits. */
function npm(cwd: string, args: readonly string[], env: Record<string, string> = {}): Promise<void> {
  const child = spawn('npm', args, { cwd, env: { ...process.env, NODE_ENV: '', ...env }, stdio: 'pipe' });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`npm ${args.join(' ')} ended with ${code ?? 'a signal'}:\n${output}`));
    });
  });
}

/** Serves a folder as static files. */
function serve(folder: () => string): Server {
  return createServer((request, response) => {
    const path = request.url === '/' ? '/index.html' : (request.url ?? '');
    readFile(join(folder(), path)).then(
      (file) => response.setHeader('Content-Type', MEDIA_TYPES[extname(path)] ?? 'text/plain').end(file),
      () => response.writeHead(404).end(),
    );
  });
}

async function enterKey(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Use this key' }).click();
}

async function add(page: Page, name: string, categoryId: string): Promise<void> {
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Category').fill(categoryId);
  await page.getByRole('button', { name: 'Add', exact: true }).click();
}

async function secondsLeft(page: Page): Promise<number> {
  return Number(/Again in (\d+) s/.exec(await page.getByRole('timer').innerText())?.[1]);
}
