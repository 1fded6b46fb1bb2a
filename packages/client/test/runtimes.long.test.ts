import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeInBrowser, openPage, startBrowser } from '../../../test/support/browser.js';
import { startGateway, type Gateway } from '../../../test/support/gateway.js';

const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
const VERSIONS = { bun: '1.4.5', deno: '2.9.6', miniflare: '4.20260730.0' };

/** Uses each method of the client. */
const PROGRAM = `import { createPetClient, isPetError } from 'animal-store-client';
  export async function useClient(url, key) {
    const client = createPetClient({ url, key });
    const { id } = await client.add({ name: 'Rex', categoryId: '9007199254740993' });
    const [found, missing] = await client.loadMany([id, '404404']);
    const [first] = await client.list({ limit: 1 });
    const same = await client.get(first.id);
    return [found.categoryId, isPetError(missing) && missing.code, same.name];
  }`;
const RESULT = JSON.stringify(['9007199254740993', 'NOT_FOUND', 'Bella']);
const MAIN = `import { useClient } from './program.mjs';
  const [url, key] = globalThis.Deno ? Deno.args : process.argv.slice(2);
  console.log(JSON.stringify(await useClient(url, key)));`;
/** workerd is what runs Cloudflare Workers; miniflare starts it. */
const WORKER = `import { useClient } from './program.mjs';
  export default { fetch: async (_, { URL, KEY }) => Response.json(await useClient(URL, KEY)) };`;
const START_WORKER = `import { readFileSync } from 'node:fs';
  import { Miniflare } from 'miniflare';
  const [url, key] = process.argv.slice(2);
  const script = readFileSync('worker.bundle.mjs', 'utf8');
  const bindings = { URL: url, KEY: key };
  const worker = new Miniflare({ modules: true, script, bindings, compatibilityDate: '2026-01-01' });
  console.log(await (await worker.dispatchFetch('http://worker/')).text());
  await worker.dispose();`;

const run = promisify(execFile);

describeInBrowser('the client in every runtime', () => {
  let gateway: Gateway;
  let key: string;
  let folder: string;

  beforeAll(async () => {
    gateway = await startGateway('embedded', { SAMPLE_DATA: 'true' });
    ({ key } = await gateway.createKey());
    folder = await mkdtemp(join(tmpdir(), 'runtimes-'));
    const manifest = {
      private: true,
      dependencies: VERSIONS,
      // These packages download nothing: they link a program that npm has installed.
      allowScripts: { bun: true, deno: true, workerd: true, esbuild: true },
    };
    await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
    await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline'], { cwd: folder });
    const installed = join(folder, 'node_modules/animal-store-client');
    for (const part of ['package.json', 'dist']) {
      await cp(join(PACKAGE, part), join(installed, part), { recursive: true });
    }
    const files = { 'program.mjs': PROGRAM, 'main.mjs': MAIN, 'worker.mjs': WORKER, 'start-worker.mjs': START_WORKER };
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    const [entry, outfile] = [join(folder, 'worker.mjs'), join(folder, 'worker.bundle.mjs')];
    await build({ entryPoints: [entry], outfile, bundle: true, format: 'esm', logLevel: 'error' });
  });
  afterAll(async () => {
    await gateway.close();
    await rm(folder, { recursive: true, force: true });
  });

  it.each([
    ['Node', process.execPath, ['main.mjs']],
    ['Bun', 'node_modules/.bin/bun', ['main.mjs']],
    ['Deno', 'node_modules/.bin/deno', ['run', '--allow-net', '--node-modules-dir=manual', 'main.mjs']],
    ['workerd, an edge runtime', process.execPath, ['start-worker.mjs']],
  ])('works in %s', async (_, program, args) => {
    const { stdout } = await run(program, [...args, `${gateway.url}/graphql`, key], { cwd: folder });
    expect(stdout.trim()).toBe(RESULT);
  });

  it('works in Chromium', async () => {
    const entry = join(folder, 'program.mjs');
    const bundled = await build({ entryPoints: [entry], bundle: true, write: false, globalName: 'program' });
    const browser = await startBrowser();
    try {
      const { page } = await openPage(browser);
      await page.goto(`${gateway.url}/livez`);
      const call = `program.useClient(location.origin + '/graphql', '${key}').then(JSON.stringify)`;
      expect(await page.evaluate(`(() => { ${bundled.outputFiles[0]?.text} return ${call}; })()`)).toBe(RESULT);
    } finally {
      await browser.close();
    }
  });

  it('is tried with the versions that the README names', async () => {
    const readme = await readFile(join(PACKAGE, 'README.md'), 'utf8');
    for (const version of [VERSIONS.bun, VERSIONS.deno]) expect(readme).toContain(version);
  });
});
