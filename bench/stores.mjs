import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createDatabase } from './machine/database.mjs';
import { startServer } from './machine/processes.mjs';

/**
 * Where the animals are during a run. `of(root)` tells the servers of a build where; `reset`
 * takes out what earlier runs have added, and `assertStored` makes sure that every addPet that was answered was done.
 */
export async function openStore({ cores, keyCount, roots }) {
  const databases = new Map();
  const close = async () => {
    for (const database of databases.values()) await database.drop();
    databases.clear();
  };
  try {
    // A build may migrate further than another: each has a database of its own.
    for (const root of roots) databases.set(root, await createDatabase(root, keyCount));
  } catch (error) {
    await close();
    throw error;
  }
  const [main] = databases.values();
  const all = [...databases.values()];
  return {
    version: main.version,
    of: (root) => ({ databaseUrl: databases.get(root).url, keys: databases.get(root).keys }),
    async pinConnections() {
      if (cores) for (const database of all) await database.pinBackends(cores.backing);
    },
    async reset() {
      for (const database of all) await database.removeAdded();
    },
    async assertStored(answered) {
      let stored = 0;
      for (const database of all) stored += await database.countAdded();
      assertEqual(stored, answered);
    },
    close,
  };
}

/** The upstream of the proxies, with the OpenAPI document of the build for whoever wants it. */
export async function openProxyStore({ cores, directory, keyCount, ours, names }) {
  const openApiFile = join(directory, 'openapi.json');
  writeFileSync(openApiFile, names.includes('hive') ? await fetchOpenApi(ours, directory) : '{}');
  const upstream = await startServer({
    name: 'upstream',
    args: [fileURLToPath(new URL('upstream/store.mjs', import.meta.url))],
    env: { OPENAPI_FILE: openApiFile },
    core: cores?.backing,
    directory,
  });
  const base = `http://127.0.0.1:${upstream.port}`;
  const keys = Array.from({ length: keyCount }, (_, index) => `bench-key-${String(index).padStart(4, '0')}`);
  const countAdded = async () => Number(await (await fetch(`${base}/added`)).text());
  let added = 0;
  return {
    of: () => ({ upstreamUrl: `${base}/v1`, openApiFile, keys }),
    pinConnections: () => Promise.resolve(),
    async reset() {
      added = await countAdded();
    },
    async assertStored(answered) {
      assertEqual((await countAdded()) - added, answered);
    },
    close: () => upstream.stop(),
  };
}

function assertEqual(stored, answered) {
  if (stored !== answered) throw new Error(`${answered} addPet were answered, but ${stored} were stored`);
}

/** Asks an embedded store of the build for its interface description. */
async function fetchOpenApi(root, directory) {
  const data = join(directory, 'embedded');
  mkdirSync(data);
  const store = await startServer({
    name: 'openapi',
    args: [`${root}/dist/bundle/main.js`],
    env: { DATA_DIR: data },
    directory,
  });
  try {
    const answer = await fetch(`http://127.0.0.1:${store.port}/v1/openapi.json`);
    if (!answer.ok) throw new Error(`/v1/openapi.json answered ${answer.status}`);
    return await answer.text();
  } finally {
    await store.stop();
  }
}
