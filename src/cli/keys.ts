#!/usr/bin/env node
import { userInfo } from 'node:os';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { PLANS, type Plan } from '../access/plans.js';
import { findKeysCommand, loadEnvironment } from '../environment.js';
import { openRedisLink } from '../redis/redis-link.js';
import { requireEmbeddedStore } from '../store/embedded-store.js';
import { createKeyAdmin, createRedisPeek, type KeyAdmin, type KeyStatus } from '../store/key-admin.js';
import { listPendingMigrations, requireTables } from '../store/migrate.js';
import { createPostgresKeyStore, type CreatedKey, type KeyFilter } from '../store/postgres-key-store.js';
import { createPostgresUsage } from '../store/postgres-usage.js';
import {
  describe,
  describeStatus,
  formatCallers,
  formatEvents,
  formatKeys,
  formatTime,
  formatUsage,
  toCreatedJson,
} from './keys-output.js';
import { count, createProgram, describeStore, explain, runProgram, withDatabase, write } from './program.js';

interface Json {
  readonly json?: boolean;
}

interface Settings extends Json {
  readonly label?: string;
  readonly perMinute?: number;
  readonly perDay?: number;
  readonly expires?: Date | typeof NEVER;
}

const PAGE = 200;
const DAY_MS = 86_400_000;
const NEVER = 'never';
const ID = 'the id of the key, as create and list print it';

const program = createProgram('keys').description('Manages API keys. Times are in UTC.');

withSettings(command('create', 'creates a key and prints its secret, once'), true).action(
  async ({ json, expires: expiresAt, ...settings }: Settings & { plan: Plan; expires?: Date }) => {
    const created = await withKeys((admin, actor) => admin.create({ ...settings, expiresAt, actor }));
    await printSecret(json, created, toCreatedJson(created), `Created ${describe(created)}.`);
  },
);

command('list', 'lists keys without their secrets, the newest first')
  .addOption(new Option('--plan <plan>', 'only keys of this plan').choices(PLANS))
  .option('--active', 'only keys that are neither revoked nor expired')
  .option('--limit <n>', 'how many at most (default: 50, with --json all)', toCount)
  .option('--after <id>', 'only keys older than this one, for the next page')
  .action(async ({ json, limit = json ? Infinity : 50, ...filter }: Partial<KeyFilter> & Json) => {
    const keys = await withKeys((admin) => listKeys(admin, filter, limit, json));
    if (json) return;
    const none = `There are no such keys. To create one: ${findKeysCommand()} create --plan free`;
    const more = keys.length === limit ? `\nThere may be more: add --after ${keys.at(-1)?.id}` : '';
    await write(process.stdout, `${keys.length === 0 ? none : formatKeys(keys) + more}\n`);
  });

keyCommand('show', 'shows a key, when it was last used and what it has left', describeStatus);

withSettings(command('update', 'changes the plan, label or expiry of a key, which keeps its secret'), false)
  .argument('<id>', ID)
  .action(async (id: string, { json, expires, label, ...settings }: Settings & { plan?: Plan }) => {
    const expiresAt = expires === NEVER ? null : expires;
    const update = { ...settings, expiresAt, label: label === '' ? null : label };
    if (Object.values(update).every((value) => value === undefined))
      throw new Error('update needs --plan, --label, --expires, --per-minute or --per-day');
    const key = await withKeys((admin, actor) => admin.update({ ...update, id, actor }));
    await print(json, key, () => `Updated ${describe(key)}. It takes effect within 5 seconds.`);
  });

command('rotate', 'gives a key a new secret and prints it, once')
  .argument('<id>', ID)
  .option('--overlap <time>', 'how long the old secret still works, such as 30m, 24h or 7d', toMilliseconds, DAY_MS)
  .action(async (id: string, { json, overlap: overlapMs }: Json & { overlap: number }) => {
    const rotated = await withKeys((admin, actor) => admin.rotate({ id, overlapMs, actor }));
    const { previousEndsAt } = rotated;
    const sentence = `Rotated ${id}. The old secret works until ${formatTime(previousEndsAt)}.`;
    await printSecret(json, rotated, { ...toCreatedJson(rotated), previousEndsAt }, sentence);
  });

keyCommand('revoke', 'revokes a key for good', ({ id, revokedAt }) => {
  return `Revoked ${id} at ${formatTime(revokedAt)}. Servers refuse it within 5 seconds.`;
});

keyCommand('unban', 'lifts the ban of a key on every instance', ({ id }) => {
  return `If ${id} was banned, the ban ends within 5 seconds.`;
});

command('log', 'lists who did what to which key, the latest first')
  .argument('[id]', 'only what was done to this key')
  .option('--limit <n>', 'how many entries at most', toCount, 50)
  .action(async (id: string | undefined, { json, limit }: Json & { limit: number }) => {
    const events = await withKeys((admin) => admin.log({ id, limit }));
    await print(json, events, () => (events.length === 0 ? 'Nothing was done yet.' : formatEvents(events)));
  });

command('usage', 'adds up what keys requested, the highest cost first')
  .argument('[id]', 'only what this key requested')
  .option('--since <iso-date>', 'since this day (default: today)', toDate)
  .option('--limit <n>', 'how many sums at most', toCount, 50)
  .action(
    async (id: string | undefined, { json, since = new Date(), limit }: Json & { since?: Date; limit: number }) => {
      const usage = await withKeys((admin) => admin.usage({ id, since, limit }));
      const period = `since ${formatTime(since).slice(0, 10)}`;
      const none = `Nothing was requested ${period}. For a longer time, add --since.`;
      await print(json, usage, () => (usage.length === 0 ? none : `Requests ${period}:\n${formatUsage(usage)}`));
    },
  );

command('deprecated', 'lists who calls what is deprecated, the latest caller first')
  .option('--since <iso-date>', 'leave out who has not called since then', toDate)
  .action(async ({ since, json }: Json & { since?: Date }) => {
    const callers = await withKeys((admin) => admin.deprecated({ since }));
    const none = `Nobody has called anything deprecated${since ? ` since ${since.toISOString()}` : ''}.`;
    await print(json, callers, () => (callers.length === 0 ? none : formatCallers(callers)));
  });

function command(name: string, description: string): Command {
  return program.command(name).description(description).option('--json', 'print JSON in one line');
}

/** Adds a command that has one key as its argument and its result. */
function keyCommand(name: 'show' | 'revoke' | 'unban', description: string, toSentence: (key: KeyStatus) => string) {
  command(name, description)
    .argument('<id>', ID)
    .action(async (id: string, { json }: Json) => {
      const key = await withKeys((admin, actor) => admin[name]({ id, actor }));
      await print(json, key, () => toSentence(key));
    });
}

function withSettings(to: Command, isNew: boolean): Command {
  const plan = new Option('--plan <plan>', 'the plan').choices(PLANS);
  return to
    .addOption(isNew ? plan.makeOptionMandatory() : plan)
    .option('--label <text>', `what the key is for${isNew ? '' : '; an empty text removes it'}`)
    .option('--per-minute <n>', 'requests a minute, for enterprise', toCount)
    .option('--per-day <n>', 'requests a day, for enterprise', toCount)
    .option(
      '--expires <iso-date>',
      `when the key ends, such as 2027-01-31 or 2027-01-31T12:00:00Z${isNew ? '' : ', or never'}`,
      (text: string) => (text === NEVER && !isNew ? NEVER : toDate(text)),
    );
}

/** Runs `work` on the keys of the configured store, and reports which store that is. */
async function withKeys<T>(work: (admin: KeyAdmin, actor: string) => Promise<T>): Promise<T> {
  const { backend, bans, redisUrl, keysActor } = loadEnvironment();
  if (backend.kind === 'proxy')
    throw new Error('UPSTREAM_URL is set: keys belong to the animal store behind the gateway');
  const store = describeStore(backend);
  if (backend.kind === 'embedded') await requireEmbeddedStore(backend.directory, ': start the program to create one');
  try {
    const result = await withDatabase(backend, async (database) => {
      await requireTables(database, store);
      const { length } = await listPendingMigrations(database);
      if (length > 0) throw new Error(`${store} has ${count(length, 'pending migration')}: run npm run migrate`);
      const redis = redisUrl === undefined ? undefined : await openRedisLink({ url: redisUrl, deadlineMs: 5_000 });
      const peek = redis ? createRedisPeek(redis, bans) : () => undefined;
      const admin = createKeyAdmin(createPostgresKeyStore(database), createPostgresUsage(database), peek);
      return work(admin, keysActor?.trim() || findUser()).finally(() => redis?.close());
    });
    console.error(`keys: ${store}`);
    return result;
  } catch (error) {
    const message = explain(error);
    throw new Error(message.includes(store) ? message : `${message} (${store})`, { cause: error });
  }
}

/** The user of the operating system. In a container, it may have no name. */
function findUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/**
 * Lists keys page by page. As JSON, each page is printed at once, so that a long list needs little memory.
 * @returns the keys that are not printed yet
 */
async function listKeys(admin: KeyAdmin, filter: Partial<KeyFilter>, limit: number, json: boolean | undefined) {
  const keys: KeyStatus[] = [];
  let { after } = filter;
  let separator = '[';
  for (let left = limit; left > 0; left -= PAGE) {
    const page = await admin.list({ ...filter, after, limit: Math.min(PAGE, left) });
    if (!json) keys.push(...page);
    else if (page.length > 0) {
      await write(process.stdout, separator + JSON.stringify(page).slice(1, -1));
      separator = ',';
    }
    if (page.length < PAGE) break;
    after = page.at(-1)?.id;
  }
  if (json) await write(process.stdout, separator === '[' ? '[]\n' : ']\n');
  return keys;
}

function print(json: boolean | undefined, value: unknown, describeValue: () => string): Promise<void> {
  return write(process.stdout, `${json ? JSON.stringify(value) : describeValue()}\n`);
}

/** Prints a key with its secret, which cannot be shown again. */
async function printSecret(json: boolean | undefined, { id, key }: CreatedKey, value: object, sentence: string) {
  try {
    await print(json, value, () => `${sentence}\nIts secret, shown only now:\n${key}`);
  } catch (error) {
    throw new Error(`${(error as Error).message}: the new secret of ${id} is lost. Rotate or revoke the key`);
  }
}

// Each function parses the value of an option. commander prints the message of an InvalidArgumentError.

const UNITS_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function toCount(text: string): number {
  const count = Number(text);
  if (/^[1-9]\d{0,9}$/.test(text) && count <= 2_147_483_647) return count;
  throw new InvalidArgumentError('It must be a whole number from 1 to 2147483647.');
}

const ISO_DATE = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/** A moment: a day in UTC, or a time with its zone. */
function toDate(text: string): Date {
  const [, day] = ISO_DATE.exec(text) ?? [];
  const date = new Date(text);
  // JavaScript converts 31 February to 3 March, so compare the day.
  if (day !== undefined && !Number.isNaN(date.getTime()) && new Date(day).toISOString().startsWith(day)) return date;
  throw new InvalidArgumentError('It must be an ISO date, such as 2027-01-31 or 2027-01-31T12:00:00Z.');
}

const LONGEST_MS = 365 * UNITS_MS.d;

/** A duration such as `24h`, of a year at most. */
function toMilliseconds(text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text === '0' ? '0s' : text) ?? [];
  if (count === undefined) throw new InvalidArgumentError('It must be a time such as 0, 90s, 30m, 24h or 7d.');
  const time = Number(count) * UNITS_MS[unit as keyof typeof UNITS_MS];
  if (time > LONGEST_MS) throw new InvalidArgumentError('It must be at most 365d.');
  return time;
}

void runProgram(program);
