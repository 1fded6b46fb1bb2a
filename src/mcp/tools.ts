import { hash } from 'node:crypto';
import { z } from 'zod';
import type { RateLimitGuard, Session } from '../access/session.js';
import { toUnixSeconds } from '../clock.js';
import { StoreError } from '../errors.js';
import { JsonNumber } from '../json/exact-json.js';
import { INT64_RULE, isInt64, type Int64 } from '../pets/int64.js';
import { isLimit, isName, LIMIT, LIMIT_RULE, NAME_LENGTH, NAME_RULE, PET_STATUSES, type Pet } from '../pets/pet.js';
import type { Call, FoundPets, PetSource } from '../pets/pet-source.js';
import { areLookupsRemoved, type Brownout } from '../pets/removal.js';

export interface ToolContext {
  readonly source: PetSource;
  readonly guardRateLimit: RateLimitGuard;
  readonly brownouts: readonly Brownout[];
  readonly session: Session;
  readonly call: Call;
}

interface Tool<Input extends z.ZodObject = z.ZodObject> {
  readonly description: string;
  readonly input: Input;
  /** The properties of its result. None is required, because some clients check refusals against them, too. */
  readonly output: object;
  /** What it would cost over REST: 1 by default. */
  readonly cost?: (args: z.output<Input>) => number;
  readonly run: (args: z.output<Input>, context: ToolContext) => Promise<object>;
}

const define = <Input extends z.ZodObject>(tool: Tool<Input>) => tool as unknown as Tool;

const isId = (value: unknown): boolean =>
  (typeof value === 'string' || typeof value === 'number' || value instanceof JsonNumber) && isInt64(String(value));
const toId = (value: unknown) => String(value) as Int64;
const id = z.custom(isId, INT64_RULE).transform(toId).meta({ type: 'string' });
const after = id.optional().meta({ type: 'string', description: 'Lists only animals with a greater id.' });
const MAX_IDS = 50;
/** One check for all, so that a long list has one error. */
const isIdList = (list: unknown) =>
  Array.isArray(list) && list.length > 0 && list.length <= MAX_IDS && list.every(isId);
const ids = z
  .custom<unknown[]>(isIdList, `must be 1 to ${MAX_IDS} ids. Each ${INT64_RULE}`)
  .transform((list) => [...new Set(list.map(toId))])
  .meta({ type: 'array', items: { type: 'string' }, minItems: 1, maxItems: MAX_IDS });
const name = z
  .string(NAME_RULE)
  .refine(isName, NAME_RULE)
  .meta({ minLength: NAME_LENGTH.minimum, maxLength: NAME_LENGTH.maximum });
const status = z.enum(PET_STATUSES, `must be ${PET_STATUSES.join(', ')}`).optional();
const KEY_RULE = 'must be 1 to 255 printable ASCII characters';
const idempotencyKey = z
  .string(KEY_RULE)
  .regex(/^[ -~]{1,255}$/, KEY_RULE)
  .optional();
/** A number may have been written as `20.0`. */
const isLimitValue = (value: unknown): boolean =>
  (typeof value === 'number' || value instanceof JsonNumber) && isLimit(Number(value));
const limit = z
  .custom(isLimitValue, LIMIT_RULE)
  .transform(Number)
  .prefault(LIMIT.default)
  .meta({ type: 'integer', minimum: LIMIT.minimum, maximum: LIMIT.maximum });

const TEXT = { type: 'string' };
const INTEGER = { type: 'integer' };
const PET = { id: TEXT, name: TEXT, categoryId: TEXT, status: TEXT };
const listOf = (properties: object) => ({ type: 'array', items: { type: 'object', properties } });
const toPet = ({ id, name, categoryId, status }: Pet) => ({ id, name, categoryId, status });

export const TOOLS: Readonly<Record<string, Tool>> = {
  list_pets: define({
    description: 'Lists animals by ascending id. Costs 1 request. If there may be more, pass next as after.',
    input: z.strictObject({ limit, status, after }),
    output: { pets: listOf(PET), next: TEXT },
    async run(query, { source, call }) {
      const pets = await source.list(query, call);
      return { pets: pets.map(toPet), next: pets[query.limit - 1]?.id };
    },
  }),
  get_pets: define({
    description: 'Gets animals by id. Costs 1 request for each distinct id. Ids without an animal are in missing.',
    input: z.strictObject({ ids }),
    output: { pets: listOf(PET), missing: { type: 'array', items: TEXT } },
    cost: (args) => args.ids.length,
    async run({ ids }, { source, call, brownouts }) {
      const isByLists = areLookupsRemoved(brownouts);
      const found = await (isByLists ? findByLists(ids, source, call) : source.findMany(ids, call));
      const pets: Pet[] = [];
      const missing: Int64[] = [];
      for (const wanted of ids) {
        const pet = found.get(wanted);
        if (pet === undefined || (pet instanceof StoreError && pet.code === 'not_found')) missing.push(wanted);
        else if (pet instanceof Error) throw pet;
        else pets.push(pet);
      }
      return { pets: pets.map(toPet), missing };
    },
  }),
  add_pet: define({
    description:
      'Adds an animal. Costs 1 request. For 24 hours, repeats with the same arguments return this animal: to add an equal one, send another idempotencyKey.',
    input: z.strictObject({ name, categoryId: id, status, idempotencyKey }),
    output: PET,
    async run({ idempotencyKey: key, ...newPet }, { source, call, session: { keyId = '' } }) {
      const { name, categoryId, status } = newPet;
      // A model that does not know whether its call went through repeats it.
      const value = key ?? `mcp-${hash('sha256', JSON.stringify([name, categoryId, status]))}`;
      return toPet(await source.add(newPet, call, { callerId: keyId, value }));
    },
  }),
  limits: define({
    description: 'Says how many requests are left in each window, and when it resets (Unix seconds). Free.',
    input: z.strictObject({}),
    output: { plan: TEXT, windows: listOf({ seconds: INTEGER, limit: INTEGER, remaining: INTEGER, resetAt: INTEGER }) },
    cost: () => 0,
    async run(_, { session, guardRateLimit }) {
      const [allowance] = await Promise.all([session.allowance(), guardRateLimit(session)]);
      const windows = allowance?.windows.map(({ seconds, limit, remaining, resetAt }) => ({
        seconds: seconds ?? undefined,
        limit,
        remaining,
        resetAt: toUnixSeconds(resetAt),
      }));
      return { plan: allowance?.plan, windows: windows ?? [] };
    },
  }),
};

/** Finds each animal as the first of those from its id on. */
async function findByLists(ids: readonly Int64[], source: PetSource, call: Call): Promise<FoundPets> {
  const found = new Map<Int64, Pet>();
  await Promise.all(
    ids.map(async (id) => {
      const before = String(BigInt(id) - 1n);
      const [pet] = await source.list({ limit: 1, after: isInt64(before) ? before : undefined }, call);
      if (pet?.id === id) found.set(id, pet);
    }),
  );
  return found;
}

/** Null counts as absent, because models often send it. @throws StoreError `invalid_request` */
export function parseArguments(input: z.ZodObject, sent: object): Record<string, unknown> {
  const parsed = input.safeParse(Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== null)));
  if (parsed.success) return parsed.data;
  const known = Object.keys(input.shape).join(', ');
  const reasons = parsed.error.issues.slice(0, 5).map((issue) => {
    if (issue.code !== 'unrecognized_keys') return `${issue.path.join('.')} ${issue.message}`;
    const unknown = JSON.stringify(issue.keys[0]?.slice(0, 60));
    return `Unknown argument ${unknown}: this tool takes ${known || 'no arguments'}`;
  });
  throw new StoreError('invalid_request', `${reasons.join('. ').slice(0, 500)}.`);
}
