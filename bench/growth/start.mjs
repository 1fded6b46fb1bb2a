import { spawn } from 'node:child_process';
import { get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDatabase } from '../machine/database.mjs';
import { findFreePort } from '../machine/listener.mjs';
import { register } from '../machine/processes.mjs';
import { table } from '../report/markdown.mjs';
import { median } from '../report/statistics.mjs';

const POLL_MS = 5;
const LIMIT_MS = 30_000;

/** Time from the start of a process to its first 200 of /readyz, on an empty database and on one that is migrated. */
export async function measureStart({ root, starts }) {
  const rows = [];
  for (const kind of ['empty', 'migrated']) {
    const times = [];
    const database = await createDatabase(root, 1);
    try {
      for (let i = 0; i < starts; i += 1) {
        if (kind === 'empty') await database.client.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
        times.push(await startOnce(root, database.url));
      }
    } finally {
      await database.drop();
    }
    const show = (ms) => `${ms.toFixed(0)} ms`;
    rows.push([kind, starts, show(median(times)), show(Math.min(...times)), show(Math.max(...times))]);
  }
  return [
    'Time from the start of the process to the first 200 of `/readyz`',
    table(['database', 'starts', 'median', 'shortest', 'longest'], rows),
  ].join('\n\n');
}

async function startOnce(root, url) {
  const port = await findFreePort();
  const env = { PATH: process.env.PATH, NODE_ENV: 'production', DATABASE_URL: url, PORT: String(port) };
  const startedAt = performance.now();
  const child = spawn(process.execPath, [`${root}/dist/bundle/main.js`], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const { stop } = register(child);
  while (!(await isReady(port))) {
    if (child.exitCode !== null || performance.now() - startedAt > LIMIT_MS) throw new Error('it did not get ready');
    await sleep(POLL_MS);
  }
  const time = performance.now() - startedAt;
  await stop();
  return time;
}

function isReady(port) {
  return new Promise((resolve) => {
    get({ port, host: '127.0.0.1', path: '/readyz', agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    }).once('error', () => resolve(false));
  });
}
