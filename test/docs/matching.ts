import { parse, stringify } from 'lossless-json';

/** These differ in every response. */
const ALWAYS_VARY = ['requestId', 'X-Request-Id', 'resetAt', 'X-RateLimit-Reset', 'createdAt'];

/** The parts of an HTTP response that a document may print. */
export interface HttpResponse {
  /** Code and reason, such as `200 OK`. */
  readonly status: string;
  readonly headers: Headers;
  readonly body: string;
}

/** Reads what `curl -i` prints, and documents too. */
export function parseResponse(text: string): HttpResponse {
  const [head = '', ...body] = text.replaceAll('\r\n', '\n').trim().split('\n\n');
  const [statusLine = '', ...lines] = head.split('\n');
  return {
    status: statusLine.replace(/^HTTP\/[\d.]+ /, '').trim(),
    headers: new Headers(lines.map((line) => line.split(/:\s*(.*)/, 2) as [string, string])),
    body: body.join('\n\n'),
  };
}

/** Writes a response with the headers that a document prints; without a body if the document prints none. */
export function formatResponse(printed: string, { status, headers, body }: HttpResponse): string {
  const [head = '', printedBody] = printed.trim().split('\n\n');
  const names = [...head.matchAll(/^([\w-]+):/gm)].map(([, name]) => name as string);
  const lines = [`HTTP/1.1 ${status}`, ...names.map((name) => `${name}: ${headers.get(name) ?? 'absent'}`)];
  return [...lines, ...(printedBody === undefined ? [] : ['', format(body)])].join('\n');
}

/** Writes JSON in one way, with its numbers as they are. Returns other text without empty lines. */
export function format(text: string): string {
  try {
    return stringify(parse(text), undefined, 2) as string;
  } catch {
    return text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .join('\n');
  }
}

/**
 * Makes the pattern of an answer that a document prints. `…` stands for any text.
 * @param varies - JSON keys and headers whose value may be another of its kind; in double quotes: text whose digits may differ
 */
export function toPattern(printed: string, varies: readonly string[]): RegExp {
  const [ANY, DIGITS, TEXT] = ['\uE000', '\uE001', '\uE002'] as const;
  const kindOf = (value: string): string => (/^\d+$/.test(value) ? DIGITS : TEXT);
  let pattern = printed.replaceAll('…', ANY);
  for (const name of [...ALWAYS_VARY, ...varies]) {
    if (name.startsWith('"')) {
      const literal = name.slice(1, -1);
      pattern = pattern.replaceAll(literal, literal.replace(/\d+/g, DIGITS));
      continue;
    }
    pattern = pattern
      .replace(new RegExp(`("${name}": "?)([^"\\n,]+)`, 'g'), (_, key: string, value: string) => key + kindOf(value))
      .replace(new RegExp(`^(${name}: )(.+)$`, 'gm'), (_, key: string, value: string) => key + kindOf(value));
  }
  const escaped = pattern.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll(ANY, '.+').replaceAll(DIGITS, '\\d+').replaceAll(TEXT, '[^"\\n]+')}$`, 's');
}
