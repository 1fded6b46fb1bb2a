import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startFaultProxy, type FaultMode, type FaultProxy } from '../support/fault-proxy.js';
import { startPostgres, type PostgresCluster } from '../support/postgres-cluster.js';
import { makePlace, until, type Place, type Program } from '../support/process.js';
import { runSql } from '../support/sql.js';
import { noStatementWaits, whileLocked } from '../support/table-lock.js';

const ANSWERED_WITHIN_MS = 3_000;
const BACK_WITHIN_MS = 5_000;
const FAULT_MS = 3_500;
const READINESS_MS = 1_500;
const CLIENTS = 24;
const ADDS = 1_000;

let cluster: PostgresCluster;
let proxy: FaultProxy;
let place: Place;
let program: Program;
let keys: string[];

beforeAll(async () => {
  cluster = await startPostgres();
  proxy = await startFaultProxy({ port: cluster.port });
  place = await makePlace();
  const url = new URL(cluster.url);
  url.port = String(proxy.port);
  const env = { PORT: '0', DATABASE_URL: url.href, LOG_LEVEL: 'fatal' };
  program = await place.start(env);
  keys = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const limits = ['--per-minute', '1000000', '--per-day', '1000000'];
      const { stdout } = await place.keys(['create', '--plan', 'enterprise', ...limits, '--json'], env);
      return JSON.parse(stdout).key as string;
    }),
  );
});
afterAll(async () => {
  await place.close();
  await proxy.close();
  await cluster.close();
});

interface Answer {
  /** `served`, `unavailable`, or a description of any other response. */
  readonly outcome: string;
  readonly ms: number;
}

/** Sends one of the four kinds of request. */
async function ask(index: number): Promise<Answer> {
  const startedAt = performance.now();
  const outcome = await [askList, askLookups, addByRest, addTwice][index % 4]?.(keys[index % keys.length] as string);
  return { outcome: outcome ?? '', ms: performance.now() - startedAt };
}

const askList = (key: string) => rest('/v1/pets?limit=5', key);
const addByRest = (key: string) => rest('/v1/pets', key, '{"name":"Rex","categoryId":1}');
const askLookups = (key: string) => graphql('{ a: pet(id: 1) { id } pets(limit: 2) { id } }', key);
const addTwice = (key: string) =>
  graphql(
    'mutation { a: addPet(input: {name: "A", categoryId: 1}) { id } b: addPet(input: {name: "B", categoryId: 1}) { id } }',
    key,
  );

async function rest(path: string, key: string, body?: string): Promise<string> {
  const response = await program.fetch(path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { Authorization: `Bearer ${key}`, ...(body !== undefined && { 'Content-Type': 'application/json' }) },
    ...(body !== undefined && { body }),
  });
  const text = await response.text();
  if (response.ok) return 'served';
  const code = JSON.parse(text).code as string;
  return response.status === 503 && ['unavailable', 'overloaded'].includes(code) ? 'unavailable' : text;
}

async function graphql(query: string, key: string): Promise<string> {
  const { data, errors } = await program.graphql(query, key);
  if (!errors) return data ? 'served' : 'nothing';
  const codes = new Set((errors as { extensions: { code: string } }[]).map(({ extensions }) => extensions.code));
  codes.delete('NOT_FOUND');
  return codes.size === 0 ? 'served' : [...codes].join() === 'SERVICE_UNAVAILABLE' ? 'unavailable' : [...codes].join();
}

/** Clients that send requests until they are stopped. */
function askOnAndOn(): { enough(): Promise<Answer[]> } {
  let isEnough = false;
  const answers: Answer[] = [];
  const clients = Array.from({ length: CLIENTS }, async (_, index) => {
    for (let turn = 0; !isEnough; turn++) {
      answers.push(await ask(index + turn));
      await sleep(50);
    }
  });
  return {
    async enough() {
      isEnough = true;
      await Promise.all(clients);
      return answers;
    },
  };
}

/** Sends requests from many clients at once until all are served. Returns how long that took, in milliseconds. */
async function waitForService(): Promise<number> {
  const startedAt = performance.now();
  await until('all requests are served', async () => {
    const answers = await Promise.all(Array.from({ length: CLIENTS }, (_, index) => ask(index)));
    return answers.every(({ outcome }) => outcome === 'served');
  });
  return performance.now() - startedAt;
}

const setMode = (mode: FaultMode) => () => proxy.set(mode);

/** Each fault of PostgreSQL or of the network in front of it, with how it begins and ends. */
const FAULTS: Readonly<Record<string, { begin(): Promise<void>; end(): Promise<void> }>> = {
  'stopped (SIGSTOP of all its processes)': {
    begin: () => cluster.signal('SIGSTOP'),
    end: () => cluster.signal('SIGCONT'),
  },
  'killed (SIGKILL of all its processes)': { begin: () => cluster.kill(), end: () => cluster.start() },
  'shut down and started again': { begin: () => cluster.stop(), end: () => cluster.start() },
  'behind a network that stalls': { begin: setMode('stall'), end: setMode('pass') },
  'behind a black hole': { begin: setMode('blackhole'), end: setMode('pass') },
  'behind a network that resets': { begin: setMode('reset'), end: setMode('pass') },
  'not listening': { begin: setMode('refuse'), end: setMode('pass') },
  'answering garbage': { begin: setMode('garbage'), end: setMode('pass') },
};

describe.each(Object.entries(FAULTS))('PostgreSQL %s', (name, fault) => {
  it('causes unavailable responses within 3 seconds; service is back within 5 seconds after it ends', async () => {
    await waitForService();
    const lag = monitorEventLoopDelay({ resolution: 10 });
    lag.enable();
    const before = askOnAndOn();
    await sleep(200);
    await fault.begin();
    const during = askOnAndOn();
    // The state that `/readyz` reports may be a second old.
    await sleep(READINESS_MS);
    const [ready, strictlyReady] = await Promise.all(
      ['/readyz', '/readyz?backend=true'].map((path) => program.fetch(path)),
    );
    await sleep(FAULT_MS - READINESS_MS);
    const [first, second] = await Promise.all([before.enough(), during.enough()]);
    await fault.end();
    const backAfterMs = await waitForService();
    lag.disable();

    const longestMs = Math.max(...[...first, ...second].map(({ ms }) => ms));
    const figures = `${first.length + second.length} answers, the longest after ${Math.round(longestMs)} ms, service after ${Math.round(backAfterMs)} ms`;
    console.log(`PostgreSQL ${name}: ${figures}`);
    expect(new Set(first.map(({ outcome }) => outcome))).toEqual(new Set(['served', 'unavailable']));
    expect(new Set(second.map(({ outcome }) => outcome))).toEqual(new Set(['unavailable']));
    expect([ready?.status, strictlyReady?.status]).toEqual([200, 503]);
    // A busy machine delays the gateway as much as it delays this process.
    const slackMs = 2 * (lag.max / 1e6);
    expect(longestMs).toBeLessThan(ANSWERED_WITHIN_MS + slackMs);
    expect(backAfterMs).toBeLessThan(BACK_WITHIN_MS + slackMs);
    await until('it is ready', async () => (await program.fetch('/readyz?backend=true')).status === 200);
  });
});

describe('idle connections that went dead', () => {
  it('fail at most two requests in total, not one each', async () => {
    await waitForService();
    await proxy.set('blackhole');
    await proxy.set('pass');
    const startedAt = performance.now();
    const outcomes: string[] = [];
    await until('a request is served', async () => {
      outcomes.push((await ask(0)).outcome);
      return outcomes.at(-1) === 'served';
    });
    expect(outcomes.length).toBeLessThanOrEqual(3);
    expect(performance.now() - startedAt).toBeLessThan(BACK_WITHIN_MS);
    expect(
      (await Promise.all(Array.from({ length: CLIENTS }, (_, i) => ask(i)))).map(({ outcome }) => outcome),
    ).toEqual(Array.from({ length: CLIENTS }, () => 'served'));
  });
});

describe('a hanging statement', () => {
  it('is not left behind on the server', async () => {
    await whileLocked(cluster.url, async () => {
      const answers = await Promise.all(Array.from({ length: CLIENTS }, (_, index) => ask(index)));
      expect(new Set(answers.map(({ outcome }) => outcome))).toEqual(new Set(['unavailable']));
      // The table stays locked, so only their time limit and the gateway's cancellation end them.
      await noStatementWaits(cluster.url);
    });
    await waitForService();
  });
});

describe('kill -9 of PostgreSQL in the middle of 1,000 adds', () => {
  it('neither loses nor duplicates an acknowledged animal', async () => {
    await waitForService();
    const acknowledged = new Map<string, string>();
    let refused = 0;
    const names = Array.from({ length: ADDS }, (_, index) => `survivor ${index}`).values();
    const adding = Promise.all(
      Array.from({ length: 8 }, async (_, client) => {
        const key = keys[client % keys.length] as string;
        for (const name of names) {
          const id = await add(name, key, client % 2 === 0);
          if (id === undefined) refused += 1;
          else acknowledged.set(name, id);
          // Without a database, refusals are immediate. The pause makes the names last until it is back.
          if (id === undefined) await sleep(150);
        }
      }),
    );
    await until('some hundred animals are acknowledged', () => acknowledged.size >= 300);
    await cluster.kill();
    await until('a request is refused', () => refused > 0);
    const acknowledgedBefore = acknowledged.size;
    await cluster.start();
    await adding;

    const text = `SELECT id, name FROM pets WHERE name LIKE 'survivor %'`;
    const rows = await runSql<{ id: string; name: string }>(cluster.url, text);
    console.log(
      `kill -9 of PostgreSQL: ${acknowledged.size} acknowledged (${acknowledgedBefore} before), ${refused} refused, ${rows.length} stored`,
    );
    const stored = new Map(rows.map(({ id, name }) => [name, id]));
    expect(stored.size).toBe(rows.length);
    for (const [name, id] of acknowledged) expect(stored.get(name)).toBe(id);
    expect(acknowledged.size).toBeGreaterThan(acknowledgedBefore);
  });

  async function add(name: string, key: string, byGraphql: boolean): Promise<string | undefined> {
    if (byGraphql) {
      const query = 'mutation ($name: String!) { addPet(input: { name: $name, categoryId: 1 }) { id } }';
      const { data } = await program.graphql(query, key, { name });
      return data?.addPet?.id as string | undefined;
    }
    const response = await program.fetch('/v1/pets', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify({ name, categoryId: 1 }),
    });
    const pet = (await response.json()) as { id: number };
    return response.status === 201 ? String(pet.id) : undefined;
  }
});
