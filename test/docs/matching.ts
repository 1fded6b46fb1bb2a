import { parse } from 'lossless-json';

/** What is another in every answer. */
const ALWAYS_VARY = ['requestId', 'X-Request-Id', 'resetAt', 'X-RateLimit-Reset', 'createdAt'];

/**
 * Compares what a document prints with what came. A name in `varies` is a JSON key or a header whose value may be any of the
 * same type; a literal in double quotes is a text whose digits may be others. In printed text and strings `…` stands for
 * anything. All else has to be equal.
 */
export interface Comparison {
  readonly expected: unknown;
  /** What came, with what may vary replaced by what is printed: equal to `expected` if the document is right. */
  readonly actual: unknown;
}

export function compareJson(expected: string, actual: string, varies: readonly string[]): Comparison {
  const printed = parseExactly(expected);
  return { expected: printed, actual: adopt(printed, parseExactly(actual), varies) };
}

/** Compares lines of JSON, one value each. */
export function compareJsonLines(expected: string, actual: string, varies: readonly string[]): Comparison {
  const printed = linesOf(expected).map(parseExactly);
  return { expected: printed, actual: adopt(printed, linesOf(actual).map(parseExactly), varies) };
}

export function compareText(expected: string, actual: string, varies: readonly string[]): Comparison {
  const printed = linesOf(expected);
  return { expected: printed, actual: adopt(printed, linesOf(actual), varies) };
}

export interface HttpResponse {
  /** Code and reason, such as `200 OK`. */
  readonly status: string;
  readonly header: (name: string) => string | null;
  readonly body: string;
}

/** Compares the status, the headers that are printed, and the whole body: as JSON if it is printed so. */
export function compareHttp(expected: string, actual: HttpResponse, varies: readonly string[]): Comparison {
  const { status, header, body } = parseResponse(expected);
  const [head = ''] = expected.split('\n\n');
  const names = [...head.matchAll(/^([\w-]+):/gm)].map(([, name]) => name as string);
  const headersOf = (from: (name: string) => string | null): Record<string, unknown> =>
    Object.fromEntries(names.map((name) => [name, from(name)]));
  const isJson = /^[[{]/.test(body);
  const answer = isJson
    ? compareJson(body, actual.body, varies)
    : body === ''
      ? { expected: '', actual: '' }
      : compareText(body, actual.body, varies);
  const printed = headersOf(header);
  return {
    expected: { status, headers: printed, body: answer.expected },
    actual: { status: actual.status, headers: adopt(printed, headersOf(actual.header), varies), body: answer.actual },
  };
}

/** Reads a response as `curl -i` prints it, and as documents do. */
export function parseResponse(text: string): HttpResponse {
  const [head = '', ...body] = text.replaceAll('\r\n', '\n').split('\n\n');
  const [statusLine = '', ...lines] = head.split('\n');
  const headers = new Headers(lines.filter((line) => line !== '').map((line) => splitHeader(line)));
  return {
    status: statusLine.replace(/^HTTP\/[\d.]+ /, '').trim(),
    header: (name) => headers.get(name),
    body: body.join('\n\n').trim(),
  };
}

export function splitHeader(line: string): [string, string] {
  const colon = line.indexOf(':');
  if (colon < 1) throw new Error(`no header: ${JSON.stringify(line)}`);
  return [line.slice(0, colon), line.slice(colon + 1).trim()];
}

/** Numbers as text, since JavaScript rounds those of 64 bits. */
function parseExactly(text: string): unknown {
  return parse(text, undefined, (digits) => `number ${digits}`);
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line.trim() !== '');
}

function adopt(expected: unknown, actual: unknown, varies: readonly string[]): unknown {
  if (typeof expected === 'string' && typeof actual === 'string')
    return fits(expected, actual, varies) ? expected : actual;
  if (Array.isArray(expected) && Array.isArray(actual)) {
    return actual.map((value, index) => adopt(expected[index], value, varies));
  }
  if (!isRecord(expected) || !isRecord(actual)) return actual;
  return Object.fromEntries(
    Object.entries(actual).map(([key, value]) => {
      const printed = expected[key];
      return [
        key,
        (varies.includes(key) || ALWAYS_VARY.includes(key)) && isOfOneKind(printed, value)
          ? printed
          : adopt(printed, value, varies),
      ];
    }),
  );
}

function isOfOneKind(expected: unknown, actual: unknown): boolean {
  if (typeof expected !== 'string' || typeof actual !== 'string' || actual === '') return false;
  const isNumber = (text: string): boolean => text.startsWith('number ') || /^\d+$/.test(text);
  return isNumber(expected) === isNumber(actual);
}

function fits(expected: string, actual: string, varies: readonly string[]): boolean {
  let pattern = escape(expected).replaceAll('…', '.+');
  for (const literal of varies.filter((name) => name.startsWith('"'))) {
    const text = escape(literal.slice(1, -1));
    pattern = pattern.replaceAll(text, text.replace(/\d+/g, '\\d+'));
  }
  return new RegExp(`^${pattern}$`, 's').test(actual);
}

function escape(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
