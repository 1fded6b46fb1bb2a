#!/usr/bin/env node
import { Command, InvalidArgumentError, Option } from 'commander';
import type { CreatedKey, KeyRecord, NewKey } from '../access/key-store.js';
import { PLANS, type Plan } from '../access/plans.js';
import { openKeyAdmin } from '../store/store-backend.js';
import type { DeprecatedCaller } from '../access/deprecated-calls.js';
import { connectKeys, type KeyAdmin } from '../store/key-socket.js';
import { loadEnvironment } from '../environment.js';

interface CreateOptions {
  readonly plan: Plan;
  readonly label?: string;
  readonly perMinute?: number;
  readonly perDay?: number;
  readonly expires?: Date;
  readonly json?: boolean;
}

const program = new Command('keys')
  .description('Creates, lists and revokes API keys, and lists who uses what is deprecated.')
  .showHelpAfterError(false);

program
  .command('create')
  .description('creates a key and prints its secret, once')
  .addOption(new Option('--plan <plan>', 'the plan').choices(PLANS).makeOptionMandatory())
  .option('--label <text>', 'what the key is for')
  .option('--per-minute <n>', 'requests a minute, for enterprise', toCount)
  .option('--per-day <n>', 'requests a day, for enterprise', toCount)
  .option('--expires <iso-date>', 'when the key ends, such as 2027-01-31 or 2027-01-31T12:00:00Z', toDate)
  .option('--json', 'print one JSON object')
  .action(async (options: CreateOptions) => {
    const newKey = toNewKey(options);
    const created = await withKeys(({ keys }) => keys.create(newKey));
    console.log(options.json ? JSON.stringify(toJson(created)) : describeCreated(created));
  });

program
  .command('list')
  .description('lists all keys, without their secrets')
  .option('--json', 'print a JSON array')
  .action(async ({ json }: { json?: boolean }) => {
    const records = await withKeys(({ keys }) => keys.list());
    if (json) console.log(JSON.stringify(records.map(toListedJson)));
    else if (records.length === 0)
      console.log('There are no keys. Make one: npm run --silent keys -- create --plan free');
    else console.table(records.map(toRow));
  });

program
  .command('revoke')
  .description('revokes a key for good')
  .argument('<id>', 'the id of the key, as create and list print it')
  .action(async (id: string) => {
    const record = await withKeys(({ keys }) => keys.revoke(id));
    if (record === undefined) throw new Error(`there is no key with id ${JSON.stringify(id)}`);
    console.log(`Revoked ${record.id}. It stops working within 5 seconds.`);
  });

program
  .command('deprecated')
  .description('lists who calls what is deprecated, whoever called last first')
  .option('--since <iso-date>', 'leave out who has not called since then', toDate)
  .option('--json', 'print a JSON array')
  .action(async ({ since, json }: { since?: Date; json?: boolean }) => {
    const callers = await withKeys(({ deprecatedCallers }) => deprecatedCallers.list(since));
    if (json) console.log(JSON.stringify(callers.map(toCallerJson)));
    else if (callers.length === 0)
      console.log(`Nobody has called anything deprecated${since ? ` since ${since.toISOString()}` : ''}.`);
    else console.table(callers.map(toCallerRow));
  });

/** Runs `work` on the keys of the configured store: through the server that has the store open, otherwise directly. */
async function withKeys<T>(work: (admin: KeyAdmin) => Promise<T>): Promise<T> {
  const { backend } = loadEnvironment();
  if (backend.kind === 'proxy')
    throw new Error('UPSTREAM_URL is set: keys belong to the animal store behind the gateway');
  const served = backend.kind === 'embedded' ? await connectKeys(backend.directory) : undefined;
  const admin = served ?? (await openKeyAdmin(backend));
  try {
    return await work(admin);
  } finally {
    await admin.close();
  }
}

function toNewKey({ plan, label, perMinute, perDay, expires: expiresAt }: CreateOptions): NewKey {
  if (plan !== 'enterprise') {
    if (perMinute !== undefined || perDay !== undefined) {
      throw new Error(`--per-minute and --per-day are for the enterprise plan; the limits of ${plan} are published`);
    }
    return { plan, label, expiresAt };
  }
  if (perMinute === undefined || perDay === undefined) {
    throw new Error('the enterprise plan needs --per-minute and --per-day');
  }
  return { plan, label, expiresAt, limits: { perMinute, perDay } };
}

function toCount(text: string): number {
  const count = Number(text);
  if (/^[1-9]\d{0,9}$/.test(text) && count <= 2_147_483_647) return count;
  throw new InvalidArgumentError('It must be a whole number from 1 to 2147483647.');
}

const ISO_DATE = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

function toDate(text: string): Date {
  const [, day] = ISO_DATE.exec(text) ?? [];
  const date = new Date(text);
  // JavaScript converts 31 February to 3 March, so compare the day.
  if (day !== undefined && !Number.isNaN(date.getTime()) && new Date(day).toISOString().startsWith(day)) return date;
  throw new InvalidArgumentError('It must be an ISO date, such as 2027-01-31 or 2027-01-31T12:00:00Z.');
}

function toJson({ id, key, plan, label, limits, createdAt, expiresAt }: CreatedKey): object {
  return { id, key, plan, label, limits, createdAt, expiresAt };
}

function toListedJson({ id, plan, label, limits, createdAt, expiresAt, revokedAt }: KeyRecord): object {
  return { id, plan, label, limits, createdAt, expiresAt, revokedAt };
}

function toRow({ id, plan, label, limits, createdAt, expiresAt, revokedAt }: KeyRecord): object {
  return {
    id,
    plan,
    label: label ?? '',
    'per minute': limits.perMinute,
    'per day': limits.perDay,
    created: createdAt.toISOString(),
    expires: expiresAt?.toISOString() ?? 'never',
    revoked: revokedAt?.toISOString() ?? '',
  };
}

function toCallerJson(caller: DeprecatedCaller): object {
  const { keyId, label, plan, expiresAt, revokedAt, client, through, coordinate, calls, firstAt, lastAt } = caller;
  return { keyId, label, plan, expiresAt, revokedAt, client, through, coordinate, calls, firstAt, lastAt };
}

const FACES = { graphql: 'GraphQL', rest: 'REST' };

function toCallerRow(caller: DeprecatedCaller): object {
  const { keyId, label, plan, expiresAt, revokedAt, client, through, coordinate, calls, lastAt } = caller;
  const isOver = revokedAt !== null || (expiresAt !== null && expiresAt <= new Date());
  return {
    key: keyId,
    label: label ?? '',
    plan: plan ?? '',
    'key ended': isOver ? 'yes' : '',
    client: client ?? '(no name)',
    through: `${FACES[through]} ${coordinate}`,
    calls,
    last: lastAt.toISOString(),
  };
}

function describeCreated({ id, key, plan, limits, expiresAt }: CreatedKey): string {
  return `Created ${id} (${plan}: ${limits.perMinute} a minute, ${limits.perDay} a day, expires ${expiresAt?.toISOString() ?? 'never'}).
Its secret, shown only now:
${key}`;
}

program.parseAsync().catch((error: unknown) => {
  console.error(`keys: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
});
