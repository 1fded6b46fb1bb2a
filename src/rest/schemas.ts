import { z } from 'zod';
import { StoreError } from '../errors.js';
import { BODY, JsonNumber, quote } from '../json/exact-json.js';
import { INT64_RULE, isInt64, type Int64 } from '../pets/int64.js';
import { isLimit, isName, LIMIT, LIMIT_RULE, NAME_RULE, PET_STATUSES } from '../pets/pet.js';

const petStatus = z.enum(PET_STATUSES, `must be one of ${PET_STATUSES.map((status) => `"${status}"`).join(', ')}`);

/** The parser returns a JsonNumber for a number that is not an exact integer in plain decimal. */
const isNumber = (value: unknown): boolean => typeof value === 'number' || value instanceof JsonNumber;

const int64 = z
  .custom<number | JsonNumber>((value) => isNumber(value) && isInt64(String(value)), {
    error: ({ input }) => (isNumber(input) ? INT64_RULE : 'must be a number such as 42, without quotes'),
  })
  .transform((value) => String(value) as Int64);

const int64Text = z.string().refine(isInt64, INT64_RULE);

export const newPetBody = z.strictObject(
  { name: z.string('must be a string').refine(isName, NAME_RULE), categoryId: int64, status: petStatus.optional() },
  explain('property', 'A new animal takes name, categoryId and status.'),
);

export const listQuery = z.strictObject(
  {
    limit: z
      .string()
      .regex(/^(?:0|-?[1-9]\d{0,14})$/, `${LIMIT_RULE} in plain digits`)
      .transform(Number)
      .refine(isLimit, LIMIT_RULE)
      .default(LIMIT.default),
    status: petStatus.optional(),
    after: int64Text.optional(),
  },
  explain('parameter', 'A list takes limit, status and after.'),
);

/** Usage is kept for 366 days. */
export const usageQuery = z.strictObject(
  {
    days: z
      .string()
      .regex(/^(?:[1-9]\d?|[12]\d\d|3[0-5]\d|36[0-6])$/, 'must be a whole number from 1 to 366, in plain digits')
      .transform(Number)
      .default(30),
  },
  explain('parameter', 'The usage takes days.'),
);

export const emptyBody = z.strictObject({}, explain('property', 'A rotation takes none.'));

export const noQuery = z.strictObject({}, explain('parameter', 'This request takes none.'));

/** Validates the query of a URL. @throws StoreError `invalid_request` */
export function parseQuery<T extends z.ZodType>(schema: T, search: string): z.output<T> {
  const parameters = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(search)) {
    if (parameters.has(name))
      throw new StoreError('invalid_request', `The query has the parameter ${quote(name)} twice.`);
    parameters.set(name, value);
  }
  return parseInput(schema, Object.fromEntries(parameters));
}

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

function formatIssue(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') return issue.message;
  const where = issue.path.join('.') || BODY;
  if (issue.input === undefined) return `${where} is required.`;
  return `${where} ${issue.message}, got ${quote(issue.input)}.`;
}

/**
 * Explains what is wrong with an object as a whole.
 * @param members - what it may have, as a sentence
 */
function explain(member: 'property' | 'parameter', members: string) {
  return {
    error: (issue: z.core.$ZodRawIssue) =>
      issue.code === 'unrecognized_keys'
        ? `Unknown ${member} ${issue.keys.slice(0, 5).map(quote).join(', ')}. ${members}`
        : 'must be a JSON object',
  };
}
