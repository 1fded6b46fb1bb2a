// Drives a free key at four times its rate through a gateway before a store, with a pro key beside it, and says what the
// store saw. Five seconds in, the rest of the free key's minute is spent at the store directly, so that the gateway meets
// a 429. Usage: node bench/flood.mjs [seconds], after npm run build.
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const SECONDS = Number(process.argv[2] ?? 120);
const FREE_PER_SECOND = 4;
const PRO_PER_SECOND = 4;
const MAIN = fileURLToPath(new URL('../dist/bundle/main.js', import.meta.url));

const directory = await mkdtemp(join(tmpdir(), 'animal-store-flood-'));
const children = [];
const seen = [];

async function start(env, onLine = () => undefined) {
  const child = spawn(process.execPath, [MAIN], {
    env: { PATH: process.env.PATH, PORT: '0', NODE_ENV: 'development', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`ended with ${code}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const url = /listening on (http:\S+)/.exec(line)?.[1];
      if (url) resolve(url);
      else onLine(line);
    });
  });
}

async function ask(url, key, query) {
  const startedAt = performance.now();
  const response = await fetch(`${url}/graphql`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
    body: JSON.stringify({ query }),
  });
  await response.text();
  return { status: response.status, ms: performance.now() - startedAt };
}

async function drive(url, key, perSecond, seconds) {
  const answers = [];
  const end = Date.now() + seconds * 1_000;
  for (let n = 0; Date.now() < end; n++) {
    answers.push(ask(url, key, `{ pets(limit: ${(n % 100) + 1}) { id } }`));
    await sleep(1_000 / perSecond);
  }
  return Promise.all(answers);
}

const median = (answers) => answers.map(({ ms }) => ms).sort((a, b) => a - b)[Math.floor(answers.length / 2)];
const count = (answers, status) => answers.filter((answer) => answer.status === status).length;

try {
  const store = await start({ DATA_DIR: directory }, (line) => {
    if (line.startsWith('{')) seen.push({ ...JSON.parse(line), at: Date.now() });
  });
  const gateway = await start({ UPSTREAM_URL: `${store}/v1`, DATA_DIR: join(directory, 'unused'), LOG_LEVEL: 'warn' });
  const { free, pro } = JSON.parse(await readFile(join(directory, 'dev-keys.json'), 'utf8'));

  const quiet = await drive(gateway, pro, PRO_PER_SECOND, 15);
  const spend = sleep(5_000).then(async () => {
    const rest = Array.from({ length: 60 }, () =>
      fetch(`${store}/v1/pets`, { headers: { Authorization: `Bearer ${free}` } }),
    );
    await Promise.all(rest);
  });
  const [flood, beside] = await Promise.all([
    drive(gateway, free, FREE_PER_SECOND, SECONDS),
    drive(gateway, pro, PRO_PER_SECOND, SECONDS),
    spend,
  ]);
  const after = await drive(gateway, pro, PRO_PER_SECOND, 15);

  // The gateway's requests for /v1/pets carry a limit; the direct ones are those of one instant.
  const freeId = seen.find(({ path, status }) => path === '/v1/pets' && status === 429)?.keyId;
  const ofFree = seen.filter(({ keyId, path }) => keyId === freeId && path === '/v1/pets');
  const refused = ofFree.filter(({ status }) => status === 429);
  const lastDirect = Math.max(...refused.map(({ at }) => at));
  const next = ofFree.find(({ at, status }) => at > lastDirect && status === 200)?.at ?? Infinity;
  const between = ofFree.filter(({ at }) => at > lastDirect && at < next).length;

  console.log(
    `free key through the gateway: ${count(flood, 200)} answered, ${count(flood, 429)} refused, of ${flood.length}`,
  );
  console.log(`pro key beside it: ${count(beside, 200)} answered, ${beside.length - count(beside, 200)} refused`);
  const direct = await fetch(`${store}/v1/pets`, { headers: { Authorization: `Bearer ${free}` } });
  const { code = 'none' } = await direct.json();
  console.log(`the store answered 429 to the free key ${refused.length} times, the direct spending included`);
  console.log(`the store's own answer to the free key at the end: ${direct.status}, code ${code}`);
  console.log(
    `requests of the free key at the store between its last 429 and the next answer: ${between}, ${((next - lastDirect) / 1_000).toFixed(1)} s apart`,
  );
  console.log(
    `pro key, median ms: before ${median(quiet).toFixed(2)}, during ${median(beside).toFixed(2)}, after ${median(after).toFixed(2)}`,
  );
  console.log(
    `ratio during / before ${(median(beside) / median(quiet)).toFixed(2)}, after / before ${(median(after) / median(quiet)).toFixed(2)}`,
  );
  const isRight =
    beside.length === count(beside, 200) &&
    count(flood, 200) + count(flood, 429) === flood.length &&
    between === 0 &&
    code !== 'key_banned';
  process.exitCode = isRight ? 0 : 1;
} finally {
  for (const child of children.reverse()) child.kill('SIGTERM');
  await sleep(500);
  await rm(directory, { recursive: true, force: true });
}
