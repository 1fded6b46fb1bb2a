import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { KeyAdmin } from '../../src/store/key-admin.js';
import { connectKeys, serveKeys } from '../../src/store/key-socket.js';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'keys-'));
});
afterEach(() => rm(directory, { recursive: true }));

it.each([
  ['short', 'store'],
  ['just too long for a socket', 'x'.repeat(100)],
  ['long', 'ö'.repeat(100)],
])('answers the keys command in a directory with a path that is %s', async (_, name) => {
  const store = join(directory, name);
  await mkdir(store);
  const close = await serveKeys(store, {
    show: (request: { id: string }) => Promise.resolve(request),
  } as unknown as KeyAdmin);
  const connected = await connectKeys(store);
  expect(await connected?.admin.show({ id: 'key_1' })).toEqual({ id: 'key_1' });
  await close();
  expect(await connectKeys(store)).toBeUndefined();
  expect(await readdir(store)).toEqual([]);
});

it.each(['missing', 'x'.repeat(150)])('finds no server in a directory that does not exist', async (name) => {
  expect(await connectKeys(join(directory, name))).toBeUndefined();
});
