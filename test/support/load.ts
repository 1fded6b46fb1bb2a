import { setTimeout as sleep } from 'node:timers/promises';
import type { Place } from './process.js';
import { runSql } from './sql.js';

/** What a drill sends without a pause: lists and lookups, and additions with an idempotency key, by GraphQL and REST. */
export interface LoadOptions {
  readonly url: string;
  readonly key: string;
  readonly readers?: number;
  readonly writers?: number;
  /** How long each client waits between two requests, in milliseconds. */
  readonly pauseMs?: number;
}

/** One response. Times are in milliseconds, as `performance.now()` has them. */
interface Answer {
  readonly kind: 'read' | 'add';
  /** The HTTP status, or for a GraphQL error the one that it names; 0 if there was no response. */
  readonly status: number;
  readonly startedAt: number;
  readonly endedAt: number;
}

export interface Load {
  readonly answers: readonly Answer[];
  /** The ids of acknowledged animals by their unique names. */
  readonly acknowledged: ReadonlyMap<string, string>;
  /** Waits for the last responses. */
  stop(): Promise<void>;
}

const ADD = 'mutation ($name: String!) { addPet(input: { name: $name, categoryId: 1 }) { id } }';
const READ = '{ pets(limit: 5) { id } }';
/** No response takes longer. */
const ANSWER_MS = 10_000;

let loads = 0;

/** Starts to send requests. A failed addition is repeated with its key, as a client should, until it is acknowledged. */
export function startLoad({ url, key, readers = 4, writers = 4, pauseMs = 10 }: LoadOptions): Load {
  const answers: Answer[] = [];
  const acknowledged = new Map<string, string>();
  const prefix = `drill ${process.pid}.${++loads}`;
  let count = 0;
  let isStopped = false;
  const clients = [...Array<'read'>(readers).fill('read'), ...Array<'add'>(writers).fill('add')].map(async (kind) => {
    while (!isStopped) await (kind === 'add' ? addOne() : read());
  });
  return {
    answers,
    acknowledged,
    async stop() {
      isStopped = true;
      await Promise.all(clients);
    },
  };

  async function read(): Promise<void> {
    await (count++ % 2 === 0 ? rest('read', '/v1/pets?limit=5') : graphql('read', { query: READ }));
  }

  async function addOne(): Promise<void> {
    const isGraphql = count++ % 2 === 0;
    const name = `${prefix}.${count}`;
    const headers = { 'Idempotency-Key': JSON.stringify(name) };
    let id: string | undefined;
    while (id === undefined && !isStopped) {
      id = isGraphql
        ? await graphql('add', { query: ADD, variables: { name } }, headers)
        : await rest('add', '/v1/pets', { name, categoryId: 1 }, headers);
    }
    if (id !== undefined) acknowledged.set(name, id);
  }

  async function graphql(kind: Answer['kind'], body: object, headers = {}): Promise<string | undefined> {
    const { data, errors } = await send(kind, '/graphql', body, headers);
    return errors ? undefined : (data?.addPet?.id as string | undefined);
  }

  async function rest(kind: Answer['kind'], path: string, body?: object, headers = {}): Promise<string | undefined> {
    const { id } = await send(kind, path, body, headers);
    return id === undefined ? undefined : String(id);
  }

  async function send(kind: Answer['kind'], path: string, body: object | undefined, headers: object): Promise<any> {
    const startedAt = performance.now();
    let status = 0;
    let parsed: any = {};
    try {
      const response = await fetch(url + path, {
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
        headers: { Authorization: `Bearer ${key}`, ...(body && { 'Content-Type': 'application/json' }), ...headers },
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      const text = await response.text();
      ({ status } = response);
      parsed = JSON.parse(text);
      if (parsed.errors) status = Number(parsed.errors[0].extensions.error?.status ?? status);
    } catch {
      // A response that is not JSON keeps its status: a balancer sends such.
    }
    answers.push({ kind, status, startedAt, endedAt: performance.now() });
    await sleep(pauseMs);
    return parsed;
  }
}

/** What became of a load. */
export interface Outcome {
  readonly acknowledged: number;
  /** Acknowledged animals that the store does not have under their id. */
  readonly lost: number;
  /** Names that the store has more than once. */
  readonly duplicated: number;
  readonly reads: Readonly<Record<string, number>>;
  readonly adds: Readonly<Record<string, number>>;
  readonly longestReadMs: number;
  readonly longestAddMs: number;
  /** The longest time without an acknowledged addition, in seconds. */
  readonly pauseSeconds: number;
}

/** Compares the acknowledged animals with those in the database, and prints a line of a table. */
export async function judge(name: string, load: Load, databaseUrl: string): Promise<Outcome> {
  const { answers, acknowledged } = load;
  const rows = await runSql<{ id: string; name: string }>(
    databaseUrl,
    `SELECT id, name FROM pets WHERE name LIKE 'drill %'`,
  );
  const stored = new Map(rows.map((row) => [row.name, row.id]));
  const lost = [...acknowledged].filter(([animal, id]) => stored.get(animal) !== id).length;
  const ofKind = (kind: Answer['kind']): Answer[] => answers.filter((answer) => answer.kind === kind);
  const [reads, adds] = [ofKind('read'), ofKind('add')];
  const done = adds.filter(({ status }) => isSuccess(status)).map(({ endedAt }) => endedAt);
  const pauseMs = done.slice(1).reduce((most, at, index) => Math.max(most, at - (done[index] as number)), 0);
  const outcome: Outcome = {
    acknowledged: acknowledged.size,
    lost,
    duplicated: rows.length - stored.size,
    reads: countStatuses(reads),
    adds: countStatuses(adds),
    longestReadMs: longest(reads),
    longestAddMs: longest(adds),
    pauseSeconds: Math.round(pauseMs / 10) / 100,
  };
  console.log(`| ${[name, ...Object.values(outcome as object as Record<string, number>).map(format)].join(' | ')} |`);
  return outcome;
}

/** Returns the seconds from a moment until the next acknowledged addition that was sent after it. */
export function secondsUntilBack({ answers }: Load, since: number): number {
  const next = answers.find(({ kind, status, startedAt }) => kind === 'add' && isSuccess(status) && startedAt >= since);
  return next ? Math.round((next.endedAt - since) / 10) / 100 : Infinity;
}

const isSuccess = (status: number): boolean => status === 200 || status === 201;

const longest = (answers: readonly Answer[]): number =>
  Math.round(answers.reduce((most, { startedAt, endedAt }) => Math.max(most, endedAt - startedAt), 0));

function countStatuses(answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

function format(value: number | Record<string, number>): string {
  return typeof value === 'object' ? JSON.stringify(value).replace(/["{}]/g, '').replaceAll(',', ', ') : String(value);
}

/** Creates a key whose limits no drill reaches. */
export async function createUnlimitedKey(place: Place, databaseUrl: string): Promise<string> {
  const limits = ['--per-minute', '1000000', '--per-day', '10000000'];
  const args = ['create', '--plan', 'enterprise', ...limits, '--json'];
  const { stdout, stderr } = await place.keys(args, { DATABASE_URL: databaseUrl });
  if (stdout === '') throw new Error(stderr);
  return (JSON.parse(stdout) as { key: string }).key;
}
