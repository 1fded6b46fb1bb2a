import type { Gateway } from '../support/gateway.js';

/** The editions of the protocol, each with the headers and members that its clients send. */
export const EDITIONS = ['2025-11-25', '2026-07-28'] as const;
export type Edition = (typeof EDITIONS)[number];

interface Pet {
  readonly id: string;
  readonly name: string;
}

/** Of a tool, or of discovery. Its shape depends on the message of each test. */
export interface Result {
  readonly isError?: boolean;
  readonly content: readonly { readonly type: string; readonly text: string }[];
  readonly structuredContent: {
    readonly id: string;
    readonly pets: readonly Pet[];
    readonly windows: readonly { readonly remaining: number }[];
  };
  readonly tools: readonly {
    readonly name: string;
    readonly description: string;
    readonly inputSchema: { readonly type: string; readonly properties: object };
    readonly outputSchema: { readonly type: string };
    readonly annotations: object;
  }[];
  readonly ttlMs?: number;
  readonly cacheScope?: string;
}

interface Message {
  readonly jsonrpc: string;
  readonly id: unknown;
  readonly error: { readonly code: number; readonly message: string; readonly data: { readonly code: string } };
  readonly result: Result;
}

export interface McpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Message;
  readonly result: Result;
}

export interface McpOptions {
  readonly key?: string | undefined;
  readonly edition?: Edition;
  readonly headers?: Record<string, string>;
  readonly id?: number | string;
  readonly agent?: string | undefined;
}

type Place = Pick<Gateway, 'fetch'>;

/** Sends a message of a client as the edition wants it. */
export async function send(
  place: Place,
  method: string,
  params: Record<string, unknown> = {},
  { key, edition = '2026-07-28', headers, id = 1, agent = 'test-agent' }: McpOptions = {},
): Promise<McpAnswer> {
  const isNew = edition === '2026-07-28';
  const meta = {
    'io.modelcontextprotocol/protocolVersion': edition,
    'io.modelcontextprotocol/clientInfo': { name: agent, version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const { name } = params;
  return post(
    place,
    JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, ...(isNew && { _meta: meta }) } }),
    {
      ...(key !== undefined && { Authorization: `Bearer ${key}` }),
      'MCP-Protocol-Version': edition,
      ...(isNew && { 'Mcp-Method': method, ...(typeof name === 'string' && { 'Mcp-Name': name }) }),
      ...headers,
    },
  );
}

/** Sends any body. */
export async function post(place: Place, body: string, headers: Record<string, string> = {}): Promise<McpAnswer> {
  const response = await place.fetch('/mcp', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...headers },
    body,
  });
  const text = await response.text();
  const message = (text === '' ? {} : JSON.parse(text)) as Message;
  return { status: response.status, headers: response.headers, text, body: message, result: message.result };
}

export function callTool(
  place: Place,
  name: string,
  args: Record<string, unknown> = {},
  options: McpOptions = {},
): Promise<McpAnswer> {
  return send(place, 'tools/call', { name, arguments: args }, options);
}

/** What the key has left this minute, by a request that costs nothing. */
export async function remaining(place: Place, key: string): Promise<number> {
  const { result } = await callTool(place, 'limits', {}, { key });
  return result.structuredContent.windows[0]?.remaining ?? NaN;
}
