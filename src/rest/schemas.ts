import { z } from 'zod';
import { redact } from '../access/api-key.js';
import { StoreError } from '../errors.js';
import { BODY } from '../http/body.js';
import { JsonNumber } from '../json/exact-json.js';
import { expectInt64, isInt64, type Int64 } from '../pets/int64.js';
import { LIMIT, NAME_LENGTH, parseLimit, parseName, PET_STATUSES } from '../pets/pet.js';

const petStatus = z
  .enum(PET_STATUSES, `must be one of ${PET_STATUSES.map((status) => `"${status}"`).join(', ')}`)
  .meta({ description: 'Availability status.' });

const name = z
  .string('must be a string')
  .superRefine(asIssue(parseName))
  .meta({ minLength: NAME_LENGTH.minimum, maxLength: NAME_LENGTH.maximum, description: "The animal's name." });

/** The parser returns a JsonNumber for a number that is not an exact integer in plain decimal. */
const isNumber = (value: unknown): boolean => typeof value === 'number' || value instanceof JsonNumber;

const int64 = z
  .custom<number | JsonNumber>((value) => isNumber(value) && isInt64(String(value)), {
    error: ({ input }) =>
      isNumber(input) ? expectInt64(String(input), '42') : 'must be a number such as 42, without quotes',
  })
  .transform((value) => String(value) as Int64)
  .meta({ type: 'integer', format: 'int64' });

const categoryId = int64.meta({ description: 'Identifier of the category the animal belongs to.' });
const id = int64.meta({ description: 'Identifier assigned by the service on creation.' });

export const newPetBody = z.strictObject(
  { name, categoryId, status: petStatus.optional() },
  explain('property', 'A new animal takes name, categoryId and status.'),
);

/** An animal in a response. It is only used for documentation: the store's own animals need no validation. */
export const petBody = z.strictObject({ id, name, categoryId, status: petStatus.optional() });

export const listQuery = z.strictObject(
  {
    limit: z
      .string()
      .regex(
        /^(?:0|[1-9]\d{0,14})$/,
        `must be a whole number from ${LIMIT.minimum} to ${LIMIT.maximum}, in plain decimal`,
      )
      .transform(Number)
      .superRefine(asIssue(parseLimit))
      .default(LIMIT.default)
      .meta({
        type: 'integer',
        minimum: LIMIT.minimum,
        maximum: LIMIT.maximum,
        description: 'The most animals to return.',
      }),
    status: petStatus.optional().meta({ description: 'Only animals of this status.' }),
  },
  explain('parameter', 'A list takes limit and status. There is no paging.'),
);

export const lookupPath = z.strictObject({
  petId: z
    .string()
    .refine(isInt64, { error: ({ input }) => expectInt64(String(input), '42') })
    .meta({ type: 'integer', format: 'int64', description: 'The identifier of the animal.' }),
});

/** The request header of POST /pets. It is only used for documentation: `parseIdempotencyKey` parses the header. */
export const idempotencyHeader = z.strictObject({
  'Idempotency-Key': z.string().min(1).max(257).optional().meta({
    description:
      'Chosen by the client, 1 to 255 printable ASCII characters, in double quotes or bare. Equal requests with one key add one animal and get the same answer for 24 hours.',
  }),
});

export const noQuery = z.strictObject({}, explain('parameter', 'This request takes none.'));

export const errorBody = z.strictObject({
  code: z.string().meta({ description: 'Machine-readable error code.' }),
  message: z.string().meta({ description: 'Human-readable description.' }),
  status: z.int().meta({ description: 'The HTTP status code.', format: undefined, minimum: 400, maximum: 599 }),
});

/**
 * Validates untrusted input.
 * @throws StoreError `invalid_request` with at most ten reasons, each with the name of its field
 */
export function parseInput<T extends z.ZodType>(schema: T, input: unknown): z.output<T> {
  // A JsonNumber is an object in JavaScript, but the client sent a number.
  const parsed = schema.safeParse(input instanceof JsonNumber ? input.toJSON() : input, { reportInput: true });
  if (parsed.success) return parsed.data;
  const reasons = parsed.error.issues.map(formatIssue);
  throw new StoreError('invalid_request', reasons.slice(0, 10).join(' '));
}

/** Marks an issue whose message is a complete sentence. */
const WHOLE_SENTENCE = { wholeSentence: true };

function formatIssue(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') return issue.message;
  if (issue.code === 'custom' && issue.params === WHOLE_SENTENCE) return issue.message;
  const where = issue.path.join('.') || BODY;
  if (issue.input === undefined) return `${where} is required.`;
  return `${where} ${issue.message}, got ${show(issue.input)}.`;
}

/** Explains what is wrong with an object as a whole. */
function explain(member: 'property' | 'parameter', members: string) {
  const plural = { property: 'properties', parameter: 'parameters' }[member];
  return {
    error: (issue: z.core.$ZodRawIssue) =>
      issue.code === 'unrecognized_keys'
        ? `Unknown ${issue.keys.length > 1 ? plural : member} ${issue.keys.slice(0, 5).map(quote).join(', ')}. ${members}`
        : 'must be a JSON object',
  };
}

/** Formats the received value. Arrays and objects show only their type, because they may be nested too deep to format. */
function show(input: unknown): string {
  if (Array.isArray(input)) return 'an array';
  if (typeof input === 'object' && input !== null && !(input instanceof JsonNumber)) return 'an object';
  const shown = input instanceof JsonNumber ? input.text : redact(JSON.stringify(input), undefined);
  return shown.length > 60 ? `${shown.slice(0, 60)}…` : shown;
}

function quote(key: string): string {
  return JSON.stringify(key.length > 60 ? `${key.slice(0, 60)}…` : key);
}

/** Converts a domain rule to a schema check with the rule's own message. */
function asIssue<T>(rule: (value: T) => unknown) {
  return (value: T, context: z.core.$RefinementCtx<T>): void => {
    try {
      rule(value);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      context.addIssue({ code: 'custom', message: error.message, params: WHOLE_SENTENCE });
    }
  };
}
