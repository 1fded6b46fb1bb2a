import { expect } from 'vitest';
import type { Gateway } from '../support/gateway.js';

/** What the store answered over REST. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; numbers beyond 2^53 are rounded here and exact in `text`. */
  readonly body: any;
}

export interface RestClient {
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  /** Adds an animal; the body is sent as it is written. */
  post(body: string | Uint8Array<ArrayBuffer>, headers?: Record<string, string>): Promise<Answer>;
  send(method: string, path: string, init?: RequestInit): Promise<Answer>;
}

/** Asks the /v1 interface with a key, or without one. */
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

/** The statements asked for so far that touch animals; keys are looked up again behind the scenes at any time. */
export function animalStatements({ statements }: Gateway): string[] {
  return statements.filter((text) => / pets\b/.test(text));
}

/** Holds an answer to the Error body of the interface document. */
export function expectError({ status, headers, body }: Answer, expected: number, code: string, message = /./): void {
  expect(body).toEqual({ code, message: expect.stringMatching(message) as string, status: expected });
  expect(status).toBe(expected);
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
}

/** Holds an answer to the limit headers of a window, and of the windows in the form of the IETF draft. */
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
