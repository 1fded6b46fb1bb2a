import { writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { Option } from 'commander';
import { PLANS, type Plan } from '../access/plans.js';
import { findKeysCommand, loadEnvironment } from '../environment.js';
import { createKeyAdmin, createPeek, type KeyAdmin } from '../store/key-admin.js';
import { listPendingMigrations } from '../store/migrate.js';
import { createPostgresKeyStore } from '../store/postgres-key-store.js';
import { createPostgresUsage } from '../store/postgres-usage.js';
import {
  describe,
  describeStatus,
  formatDay,
  formatEvents,
  formatTable,
  formatTime,
  toCreatedJson,
  toKeyRows,
} from './keys-output.js';
import { toCount, toDate, toMilliseconds } from './option-values.js';
import { createProgram, explain, runProgram, withStore, write } from './program.js';
import { renderReport } from './report.js';

/** Each command has some of them. */
interface Options {
  readonly plan?: Plan;
  readonly label?: string;
  readonly perMinute?: number;
  readonly perDay?: number;
  readonly readOnly?: boolean;
  readonly expires?: Date | 'never';
  readonly active?: boolean;
  readonly unused?: number;
  readonly expiring?: number;
  readonly deprecated?: boolean;
  readonly html: string;
  readonly limit?: number;
  readonly overlap: number;
  readonly since: Date;
  readonly json?: boolean;
}

const program = createProgram('keys').description('Manages API keys. Times are in UTC.');

const option = (flags: string, description: string, parse: (text: string) => unknown = String) =>
  new Option(flags, description).argParser(parse);
const plan = () => new Option('--plan <plan>', 'the plan').choices(PLANS);
const SETTINGS = [
  option('--label <text>', 'what the key is for'),
  option('--per-minute <n>', 'requests a minute, for enterprise', toCount),
  option('--per-day <n>', 'requests a day, for enterprise', toCount),
  option('--expires <iso-date>', 'when the key ends, such as 2027-01-31 or 2027-01-31T12:00:00Z, or never', (text) =>
    text === 'never' ? text : toDate(text),
  ),
];
const toSettings = ({ plan, label, perMinute, perDay, expires }: Options) => ({
  ...{ plan, label, perMinute, perDay },
  expiresAt: expires === 'never' ? null : expires,
});
const LIMIT = option('--limit <n>', 'how many at most', toCount).default(50);

command(
  'create',
  'creates a key and prints its secret, once',
  [plan().makeOptionMandatory(), ...SETTINGS, new Option('--read-only', 'the key may not add animals')],
  async (admin, { actor, options }) => {
    const { plan, readOnly } = options;
    return toCreatedJson(await admin.create({ ...toSettings(options), plan: plan as Plan, readOnly, actor }));
  },
  (created, { readOnly = false }) => `Created ${describe({ ...created, readOnly })}.${toSecret(created)}`,
);

command(
  'list',
  'lists keys without their secrets, the newest first, or the next one that expires',
  [
    plan(),
    new Option('--active', 'only keys that are neither revoked nor expired'),
    option('--unused <time>', 'only keys that nobody has used for so long, such as 90d', toMilliseconds),
    option('--expiring <time>', 'only keys that expire within this time, such as 30d', toMilliseconds),
    option('--limit <n>', 'how many at most (default: 50, with --json all)', toCount),
  ],
  (admin, { options: { plan, active, unused: unusedMs, expiring: expiringMs, json, limit = json ? undefined : 50 } }) =>
    admin.list({ plan, active, unusedMs, expiringMs, limit }),
  (keys, { limit = 50 }) => {
    if (keys.length === 0) return `There are no such keys. To create one: ${findKeysCommand()} create --plan free`;
    const more = keys.length === limit ? `\nThere may be more: add --limit ${2 * limit}` : '';
    return formatTable(toKeyRows(keys)) + more;
  },
);

command(
  'show <id>',
  'shows a key, when it was last used and what it has left',
  [],
  (admin, request) => admin.show(request),
  describeStatus,
);

command(
  'update <id>',
  'changes the plan, label or expiry of a key, which keeps its secret; an empty label removes it',
  [plan(), ...SETTINGS],
  async (admin, { id, actor, options }) => {
    const update = { ...toSettings(options), ...(options.label === '' && { label: null }) };
    if (Object.values(update).every((value) => value === undefined))
      throw new Error('update needs --plan, --label, --expires, --per-minute or --per-day');
    return admin.update({ ...update, id, actor });
  },
  (key) => `Updated ${describe(key)}. It takes effect within 5 seconds.`,
);

command(
  'rotate <id>',
  'gives a key a new secret and prints it, once',
  [
    option('--overlap <time>', 'how long the old secret still works, such as 30m, 24h or 7d', toMilliseconds).default(
      86_400_000,
      '24h',
    ),
  ],
  async (admin, { id, actor, options }) => {
    const rotated = await admin.rotate({ id, actor, overlapMs: options.overlap });
    return { ...toCreatedJson(rotated), previousEndsAt: rotated.previousEndsAt };
  },
  (key) => `Rotated ${key.id}. The old secret works until ${formatTime(key.previousEndsAt)}.${toSecret(key)}`,
);

command(
  'revoke <id>',
  'revokes a key for good',
  [],
  (admin, request) => admin.revoke(request),
  ({ id, revokedAt }) => `Revoked ${id} at ${formatTime(revokedAt)}. Servers refuse it within 5 seconds.`,
);

command(
  'delete <id>',
  'deletes a revoked key; its usage and its log stay',
  [],
  (admin, request) => admin.delete(request),
  ({ id }) => `Deleted ${id}. Its usage and its log stay.`,
);

command(
  'unban <id>',
  'lifts the ban of a key on every instance',
  [],
  (admin, request) => admin.unban(request),
  ({ id }) => `If ${id} was banned, the ban ends within 5 seconds.`,
);

command(
  'log [id]',
  'lists who did what to which key, or to one key, the latest first',
  [LIMIT],
  (admin, { id, options }) => admin.log({ id, limit: options.limit as number }),
  (events) => formatEvents(events) || 'Nothing was done yet.',
);

command(
  'usage [id]',
  'adds up what keys or one key requested since a day, the highest cost first',
  [
    option('--since <iso-date>', 'since this day', toDate).default(new Date(), 'today'),
    new Option('--deprecated', 'only what is deprecated'),
    LIMIT,
  ],
  (admin, { id, options: { since, deprecated, limit } }) =>
    admin.usage({ id, since, deprecated, limit: limit as number }),
  (usage, { since }) => {
    const day = formatDay(since);
    if (usage.length === 0) return `No such request since ${day}. For a longer time, add --since.`;
    return `Requests since ${day}:\n${formatTable(usage)}`;
  },
);

command(
  'report',
  'writes one page about all keys: their use, growth, refusals, bans, and which to clean up',
  [option('--html <file>', 'the file to write').makeOptionMandatory()],
  async (admin, { store, options: { html } }) => {
    const report = await admin.report(50);
    await writeFile(html, await renderReport(report, store));
    return report;
  },
  (_, { html }) => `Wrote ${html}.`,
);

/** @param ask - returns what `--json` prints, and `format` renders for a reader */
function command<T extends object>(
  usage: string,
  description: string,
  options: readonly Option[],
  ask: (admin: KeyAdmin, request: { id: string; actor: string; store: string; options: Options }) => Promise<T>,
  format: (answer: T, options: Options) => string,
): void {
  const added = program.command(usage).description(description).option('--json', 'print JSON in one line');
  for (const option of options) added.addOption(option);
  added.action(async () => {
    const given = added.opts<Options>();
    const id = added.args[0] as string;
    const config = loadEnvironment();
    const answer = await withStore(config, async (database, store) => {
      const pending = await listPendingMigrations(database);
      if (pending.length > 0) throw new Error('migrations are pending: run npm run migrate');
      // The whole program takes longer to load than most commands to run.
      const { redis } = config;
      const sharing = redis && (await (await import('../app.js')).openSharing({ ...redis, timeoutMs: 5_000 }));
      if (sharing?.isUp() === false)
        console.error('keys: Redis does not answer: what keys have left and their bans are not shown');
      const peek = createPeek(sharing, config.bans);
      const admin = createKeyAdmin(createPostgresKeyStore(database), createPostgresUsage(database), peek);
      const request = { id, actor: config.keysActor ?? findUser(), store, options: given };
      const answer = await ask(admin, request).finally(() => sharing?.close());
      console.error(`keys: ${store}`);
      return answer;
    });
    try {
      await write(`${given.json ? JSON.stringify(answer) : format(answer, given)}\n`);
    } catch (error) {
      if (!('key' in answer && 'id' in answer)) throw error;
      throw new Error(`${explain(error)}: the new secret of ${String(answer.id)} is lost. Rotate or revoke the key`);
    }
  });
}

/** The user of the operating system. In a container, it may have no name. */
function findUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}

function toSecret({ key }: { readonly key: string }): string {
  return `\nIts secret, shown only now:\n${key}`;
}

void runProgram(program);
