#!/usr/bin/env node
import { userInfo } from 'node:os';
import { Option, type Command } from 'commander';
import { PLANS, type Plan } from '../access/plans.js';
import { USAGE_GROUPS, type UsageGroup } from '../access/usage.js';
import { findKeysCommand, loadEnvironment } from '../environment.js';
import type { KeyAdmin, KeyStatus } from '../store/key-admin.js';
import { withKeyAdmin } from '../store/commands.js';
import type { CreatedKey, KeyFilter } from '../store/postgres-key-store.js';
import {
  describe,
  describeStatus,
  formatCallers,
  formatEvents,
  formatKeys,
  formatUsage,
  toCreatedJson,
  toJson,
} from './keys-output.js';
import { toCount, toDate, toGroups, toMilliseconds } from './option-values.js';
import { createProgram, runProgram, write } from './run-program.js';
import { formatTime } from './table.js';

interface Json {
  readonly json?: boolean;
}

interface Settings {
  readonly label?: string;
  readonly perMinute?: number;
  readonly perDay?: number;
  readonly expires?: Date | typeof NEVER;
}

const PAGE = 200;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NEVER = 'never';
const ID = 'the id of the key, as create and list print it';

const program = createProgram('keys').description('Manages API keys. Times are in UTC.');

withSettings(command('create', 'creates a key and prints its secret, once'), true).action(
  async ({ json, expires, ...settings }: Settings & Json & { plan: Plan }) => {
    const created = await withKeys((admin, actor) =>
      admin.create({ ...settings, expiresAt: toExpiry(expires), actor }),
    );
    await printSecret(json, created, toCreatedJson(created), `Created ${describe(created)}.`);
  },
);

command('list', 'lists keys without their secrets, the newest first')
  .addOption(new Option('--plan <plan>', 'only keys of this plan').choices(PLANS))
  .option('--active', 'only keys that are neither revoked nor expired')
  .option('--limit <n>', 'how many at most (default: 50, with --json all)', toCount)
  .option('--after <id>', 'only keys older than this one, for the next page')
  .action(async ({ json, limit = json ? Infinity : 50, ...filter }: Partial<KeyFilter> & Json) => {
    const { keys, last } = await withKeys((admin) => listKeys(admin, filter, limit, json));
    if (json) return;
    const none = `There are no such keys. To create one: ${findKeysCommand()} create --plan free`;
    await printText(`${keys.length === 0 ? none : formatKeys(keys)}\n`);
    if (keys.length === limit) await printText(`There may be more: add --after ${last}\n`);
  });

keyCommand('show', 'shows a key, when it was last used and what it has left', describeStatus);

withSettings(command('update', 'changes the plan, label or expiry of a key, which keeps its secret'), false)
  .argument('<id>', ID)
  .action(async (id: string, { json, expires, label, ...settings }: Settings & Json & { plan?: Plan }) => {
    const update = { ...settings, expiresAt: toExpiry(expires), label: label === '' ? null : label };
    if (Object.values(update).every((value) => value === undefined))
      throw new Error('update needs --plan, --label, --expires, --per-minute or --per-day');
    const key = await withKeys((admin, actor) => admin.update({ ...update, id, actor }));
    await print(json, toJson(key), () => `Updated ${describe(key)}. It takes effect within 5 seconds.`);
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
  .option('--since <iso-date>', 'only since then (default: an hour ago, or 24 hours ago for one key)', toDate)
  .option('--by <groups>', `add up by some of ${USAGE_GROUPS.join()}, separated by commas`, toGroups)
  .option('--limit <n>', 'how many sums at most', toCount, 50)
  .action(async (id: string | undefined, options: Json & { since?: Date; by?: UsageGroup[]; limit: number }) => {
    const { json, since, limit } = options;
    const groups = options.by ?? (id === undefined ? ['key', 'client', 'operation'] : ['client', 'operation']);
    // Within a day, a million keys may have used the store: adding that up takes seconds.
    const start = since ?? new Date(Date.now() - (id === undefined ? HOUR_MS : DAY_MS));
    const usage = await withKeys((admin) => admin.usage({ id, since: start, by: groups, limit }));
    const period = `since ${formatTime(start)}`;
    const none = `Nothing was requested ${period}. For a longer time, add --since.`;
    await print(json, usage, () => (usage.length === 0 ? none : `Requests ${period}:\n${formatUsage(usage, groups)}`));
  });

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
      await print(json, toJson(key), () => toSentence(key));
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
  const config = loadEnvironment();
  return withKeyAdmin(config, async (admin, store) => {
    try {
      const result = await work(admin, config.keysActor ?? findUser());
      console.error(`keys: ${store}`);
      return result;
    } catch (error) {
      throw error instanceof Error ? new Error(`${error.message} (${store})`, { cause: error }) : error;
    }
  });
}

/** The user of the operating system. In a container, it may have no name. */
function findUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/** Lists keys page by page. As JSON, each page is printed at once, so that a long list needs little memory. */
async function listKeys(admin: KeyAdmin, filter: Partial<KeyFilter>, limit: number, json: boolean | undefined) {
  const keys: KeyStatus[] = [];
  let { after: last } = filter;
  let listed = 0;
  for (;;) {
    const size = Math.min(PAGE, limit - listed);
    const page = await admin.list({ ...filter, after: last, limit: size });
    if (json)
      await printText(page.map((key, i) => (listed + i > 0 ? ',' : '[') + JSON.stringify(toJson(key))).join(''));
    else keys.push(...page);
    listed += page.length;
    last = page.at(-1)?.id ?? last;
    if (page.length < size || listed === limit) break;
  }
  if (json) await printText(listed > 0 ? ']\n' : '[]\n');
  return { keys, last };
}

function toExpiry(expires: Settings['expires']): Date | null | undefined {
  return expires === NEVER ? null : expires;
}

function print(json: boolean | undefined, value: unknown, describeValue: () => string): Promise<void> {
  return printText(`${json ? JSON.stringify(value) : describeValue()}\n`);
}

/** Prints a key with its secret, which cannot be shown again. */
async function printSecret(json: boolean | undefined, { id, key }: CreatedKey, value: object, sentence: string) {
  try {
    await print(json, value, () => `${sentence}\nIts secret, shown only now:\n${key}`);
  } catch (error) {
    throw new Error(`${(error as Error).message}: the new secret of ${id} is lost. Rotate or revoke the key`);
  }
}

function printText(text: string): Promise<void> {
  return write(process.stdout, text);
}

void runProgram(program);
