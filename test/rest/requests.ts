import { expect } from 'vitest';
import type { Gateway } from '../support/gateway.js';

/** A response of the REST interface. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body. Numbers above 2^53 are rounded here but exact in `text`. */
  readonly body: any;
}

export interface RestClient {
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  /** Sends a POST to /v1/pets with the body unchanged. */
  post(body: string | Uint8Array<ArrayBuffer>, headers?: Record<string, string>): Promise<Answer>;
  send(method: string, path: string, init?: RequestInit): Promise<Answer>;
}

/** Creates a client of the /v1 interface, with or without a key. */
export function createRestClient(gateway: Gateway, key?: string): RestClient {
  const authorization: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };

  async function send(method: string, path: string, { headers, ...init }: RequestInit = {}): Promise<Answer> {
    const response = await gateway.fetch(path, {
      ...init,
      method,
      headers: { ...authorization, ...(headers as Record<string, string> | undefined) },
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: parse(text) };
  }

  return {
    get: (path, headers) => send('GET', path, { headers }),
    post: (body, headers) =>
      send('POST', '/v1/pets', { body, headers: { 'Content-Type': 'application/json', ...headers } }),
    send,
  };
}

function parse(text: string): unknown {
  return text === '' ? undefined : JSON.parse(text);
}

/** The SQL statements so far that touch animals. The program may repeat key lookups at any time. */
export function animalStatements({ statements }: Gateway): string[] {
  return statements.filter((text) => / pets\b/.test(text));
}

/** Expects a response with the Error body of the interface document. */
export function expectError({ status, headers, body }: Answer, expected: number, code: string, message = /./): void {
  expect(body).toEqual({ code, message: expect.stringMatching(message) as string, status: expected });
  expect(status).toBe(expected);
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
}

/** Expects the `X-RateLimit-*` headers of a window, and `RateLimit` and `RateLimit-Policy` for its minute. */
export function expectLimitHeaders(headers: Headers, { limit, remaining }: { limit: number; remaining: number }): void {
  expect(headers.get('x-ratelimit-limit')).toBe(String(limit));
  expect(headers.get('x-ratelimit-remaining')).toBe(String(remaining));
  const reset = headers.get('x-ratelimit-reset') ?? '';
  expect(reset).toMatch(/^\d+$/);
  const wait = Number(reset) - Date.now() / 1_000;
  expect(wait).toBeGreaterThan(0);
  expect(wait).toBeLessThanOrEqual(86_401);
  expect(headers.get('ratelimit-policy')).toContain(`"minute";q=${limit};w=60`);
  expect(headers.get('ratelimit')).toMatch(new RegExp(`"minute";r=${remaining};t=\\d+`));
}
