type JsonObject = Record<string, unknown>;

const ANNOTATIONS = new Set(['description', 'default', 'title', 'examples']);

/** A JSON number as its text, because a JavaScript number would round a large int64. */
export class WrittenNumber {
  constructor(readonly text: string) {}
}

/**
 * Checks a value against the part of JSON Schema that the OpenAPI document uses.
 * @param value - parsed with every number as a `WrittenNumber`
 * @param root - the document that contains the referenced schemas
 * @returns one line for each error
 * @throws Error for an unknown keyword, so that no keyword is ignored
 */
export function validate(value: unknown, schema: JsonObject, root: JsonObject, at = '$'): string[] {
  return Object.entries(schema).flatMap(([keyword, expected]) => {
    if (ANNOTATIONS.has(keyword)) return [];
    const check = KEYWORDS[keyword];
    if (!check) throw new Error(`unknown keyword ${keyword} at ${at}`);
    return check(value, expected, { schema, root, at });
  });
}

interface Place {
  readonly schema: JsonObject;
  readonly root: JsonObject;
  readonly at: string;
}

type Keyword = (value: unknown, expected: unknown, place: Place) => string[];

const KEYWORDS: Readonly<Record<string, Keyword>> = {
  $ref: (value, reference, { root, at }) => validate(value, resolve(reference as string, root), root, at),
  type: (value, type, { at }) => complain([type].flat().includes(typeOf(value)), `${at} is no ${String(type)}`),
  format(value, format, { at }) {
    if (format !== 'int64') throw new Error(`unknown format at ${at}`);
    if (!(value instanceof WrittenNumber) || typeOf(value) !== 'integer') return [];
    return complain(BigInt.asIntN(64, BigInt(value.text)) === BigInt(value.text), `${at} is no int64`);
  },
  minimum: (value, least, { at }) => complain(numberOf(value) >= (least as number), `${at} is too small`),
  maximum: (value, most, { at }) => complain(numberOf(value) <= (most as number), `${at} is too large`),
  minLength: (value, least, { at }) => complain(lengthOf(value) >= (least as number), `${at} is too short`),
  maxLength: (value, most, { at }) => complain(lengthOf(value) <= (most as number), `${at} is too long`),
  pattern: (value, pattern, { at }) =>
    complain(typeof value === 'string' && new RegExp(pattern as string, 'u').test(value), `${at} has another form`),
  const: (value, only, { at }) => complain(value === only, `${at} is another value`),
  enum: (value, values, { at }) => complain((values as unknown[]).includes(value), `${at} is none of the values`),
  items: (value, items, { root, at }) =>
    (value as unknown[]).flatMap((item, i) => validate(item, items as JsonObject, root, `${at}[${i}]`)),
  properties: (value, properties, { root, at }) =>
    Object.entries(properties as Record<string, JsonObject>).flatMap(([name, schema]) =>
      isObject(value) && name in value ? validate(value[name], schema, root, `${at}.${name}`) : [],
    ),
  required: (value, names, { at }) =>
    (names as string[]).flatMap((name) => complain(isObject(value) && name in value, `${at}.${name} is missing`)),
  additionalProperties(value, allowed, { schema, at }) {
    if (allowed !== false) throw new Error(`unknown additionalProperties at ${at}`);
    const known = Object.keys(schema.properties as JsonObject);
    const names = isObject(value) ? Object.keys(value) : [];
    return names.flatMap((name) => complain(known.includes(name), `${at}.${name} is extra`));
  },
};

/** Returns the target of a reference such as `#/components/schemas/Pet`. */
export function resolve(reference: string, root: JsonObject): JsonObject {
  if (!reference.startsWith('#/')) throw new Error(`${reference} points outside the document`);
  const found = reference
    .slice(2)
    .split('/')
    .reduce<unknown>((part, name) => (isObject(part) ? part[name.replaceAll('~1', '/')] : undefined), root);
  if (!isObject(found)) throw new Error(`${reference} points at nothing`);
  return found;
}

function complain(isFine: boolean, complaint: string): string[] {
  return isFine ? [] : [complaint];
}

function typeOf(value: unknown): string {
  if (value instanceof WrittenNumber) return /^-?\d+$/.test(value.text) ? 'integer' : 'number';
  if (Array.isArray(value)) return 'array';
  return value === null ? 'null' : typeof value;
}

function numberOf(value: unknown): number {
  return value instanceof WrittenNumber ? Number(value.text) : NaN;
}

function lengthOf(value: unknown): number {
  return typeof value === 'string' ? Array.from(value).length : NaN;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof WrittenNumber);
}
