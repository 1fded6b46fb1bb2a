import { parse, stringify } from 'lossless-json';

/** JSON keys and headers that differ in every response. */
const ALWAYS_VARY = ['requestId', 'X-Request-Id', 'resetAt', 'X-RateLimit-Reset', 'createdAt'];

/** The parts of an HTTP response that a document may print. */
export interface HttpResponse {
  /** Status code and reason, such as `200 OK`. */
  readonly status: string;
  readonly headers: Headers;
  readonly body: string;
}

/** Parses a response as printed by `curl -i` and in documents. */
export function parseResponse(text: string): HttpResponse {
  const [head = '', ...body] = text.replaceAll('\r\n', '\n').trim().split('\n\n');
  const [statusLine = '', ...lines] = head.split('\n');
  return {
    status: statusLine.replace(/^HTTP\/[\d.]+ /, '').trim(),
    headers: new Headers(lines.map((line) => line.split(/:\s*(.*)/, 2) as [string, string])),
    body: body.join('\n\n'),
  };
}

/** Formats a response with only those headers that the document prints, and with a body only if it prints one. */
export function formatResponse(printed: string, { status, headers, body }: HttpResponse): string {
  const [head = '', printedBody] = printed.trim().split('\n\n');
  const names = [...head.matchAll(/^([\w-]+):/gm)].map(([, name]) => name as string);
  const lines = [`HTTP/1.1 ${status}`, ...names.map((name) => `${name}: ${headers.get(name) ?? 'absent'}`)];
  return [...lines, ...(printedBody === undefined ? [] : ['', format(body)])].join('\n');
}

/** Formats JSON uniformly, with its numbers unchanged. Returns other text without empty lines. */
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
 * Turns a printed response into a pattern. `…` stands for any text.
 * @param varies - JSON keys and headers whose values may differ (digits stay digits), and quoted text whose digits may
 *   differ
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
