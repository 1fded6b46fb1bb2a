import { createMcpHandler, ProtocolError, ProtocolErrorCode, Server } from '@modelcontextprotocol/server';
import type { CallToolResult, JSONRPCMessage, Tool, Transport } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { keyReadOnly } from '../access/refusals.js';
import type { Session } from '../access/session.js';
import { outcomeOf, type UsageCounter } from '../access/usage.js';
import { toErrorBody, toStoreError, type StoreError } from '../errors.js';
import type { Cors } from '../http/cors.js';
import { JSON_TYPE, type Reply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import { NAME, VERSION } from '../observability/package.js';
import { parseArguments, TOOLS, type ToolContext } from './tools.js';

export interface McpOptions extends Omit<ToolContext, 'session' | 'call'> {
  readonly usage?: UsageCounter;
  readonly cors: Cors;
}

const LIST = Object.entries(TOOLS).map(([name, { description, input, output }]) => {
  const { $schema: _, ...inputSchema } = z.toJSONSchema(input, { io: 'input', unrepresentable: 'any' });
  const readOnlyHint = name !== 'add_pet';
  const annotations = { readOnlyHint, destructiveHint: false, idempotentHint: true, openWorldHint: false };
  return { name, description, inputSchema, outputSchema: { type: 'object', properties: output }, annotations } as Tool;
});
const READ_ONLY = LIST.filter(({ annotations }) => annotations?.readOnlyHint);

const STREAM = 'text/event-stream';
const CACHE = { ttlMs: 3_600_000, cacheScope: 'private' } as const;
const OPTIONS = {
  capabilities: { tools: {} },
  cacheHints: { 'tools/list': CACHE, 'server/discover': CACHE },
  instructions:
    'An animal store. Ids are 64-bit integers as strings. All tools share the request limits of the key: after a refusal, wait retryAfter seconds.',
};

/** What the SDK does for a message, in milliseconds of the event loop. */
const SDK_MS = 0.2;

// eslint-disable-next-line @typescript-eslint/no-deprecated -- the other class makes schemas anew for each request
const LowLevelServer = Server;

/** Keeps the message that it sends, because reading it from a web Response takes longer than the call. */
class OneAnswer extends LowLevelServer {
  message: JSONRPCMessage | undefined;
  /** Undefined until it is connected. */
  sent: Promise<void> | undefined;

  override connect(transport: Transport): Promise<void> {
    const send = transport.send.bind(transport);
    this.sent = new Promise((resolve) => {
      transport.send = (message, options) => {
        this.message = message;
        resolve();
        return send(message, options);
      };
    });
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- as above
    return super.connect(transport);
  }
}

/** The part of a web Request that the SDK needs, and the server that answers it. */
interface AgentRequest {
  readonly method: 'POST';
  readonly headers: Pick<Headers, 'get'>;
  readonly server: OneAnswer;
}

/** One for all requests, because each that is created stays in memory long after its request: `bench/README.md`. */
const handler = createMcpHandler(({ requestInfo }) => (requestInfo as unknown as AgentRequest).server, {
  keepAliveMs: 0,
});

/** What a client sent, as far as this program reads it. */
export interface Message {
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: {
    arguments?: unknown;
    readonly clientInfo?: Client;
    readonly _meta?: Readonly<Record<string, Client>>;
  } | null;
}
type Client = { readonly name?: unknown } | null;

/** The SDK takes JavaScript numbers. Only the arguments of tools keep theirs as they were written. */
function toPlain(sent: Message | null): unknown {
  const message = JSON.parse(JSON.stringify(sent)) as Message | null;
  const args = sent?.params?.arguments;
  if (message?.params && args !== undefined) message.params.arguments = args ?? {};
  return message;
}

/** Answers a message. The SDK checks it and its headers by the rules of the edition that the message names. */
export async function answer(
  sent: Message | null,
  http: HttpRequest,
  session: Session,
  options: McpOptions,
): Promise<Reply> {
  let failure: StoreError | undefined;
  let logged: Reply['logged'];
  const server = new OneAnswer({ name: NAME, version: VERSION }, OPTIONS);
  server.setRequestHandler('tools/list', () => ({ tools: session.readOnly ? READ_ONLY : LIST }));
  server.setRequestHandler('tools/call', async ({ params: { name: tool, arguments: args = {} } }) => {
    if (!Object.hasOwn(TOOLS, tool)) {
      const shown = JSON.stringify(tool.slice(0, 60));
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${shown}.`);
    }
    const called = await callTool(tool, args, http, session, options);
    failure = called.failure;
    logged = { cost: called.cost, operations: tool };
    return called.result;
  });
  // Answers are JSON, whatever the client accepts.
  const get = (header: string) => (header === 'accept' ? `${JSON_TYPE}, ${STREAM}` : (http.header(header) ?? null));
  const request: AgentRequest = { method: 'POST', headers: { get }, server };
  const response = await handler.fetch(request as unknown as Request, { parsedBody: toPlain(sent) });
  const type = response.headers.get('content-type');
  if (type === STREAM) await server.sent;
  const { message } = server;
  const refusal = failure && [401, 429].includes(failure.status) ? failure : undefined;
  return {
    status: refusal?.status ?? response.status,
    headers: { ...(type !== null && { 'Content-Type': message ? JSON_TYPE : type }), ...refusal?.headers },
    // The SDK writes some refusals itself.
    body: message ? JSON.stringify(message) : await response.text(),
    failures: failure && [failure],
    logged,
    busyMs: SDK_MS,
  };
}

/** Runs a tool as REST would run its request. Never rejects. */
async function callTool(
  name: string,
  args: object,
  call: HttpRequest,
  session: Session,
  { source, usage, guardRateLimit, brownouts }: McpOptions,
) {
  const { input, run, cost: priceOf } = TOOLS[name] as (typeof TOOLS)[string];
  let price = 0;
  let cost = 0;
  let failure: StoreError | undefined;
  let result: CallToolResult;
  try {
    if (name === 'add_pet' && session.readOnly) throw keyReadOnly();
    const parsed = parseArguments(input, args);
    price = priceOf?.(parsed) ?? 1;
    await session.admit(price);
    cost = price;
    const value = await run(parsed, { source, guardRateLimit, brownouts, session, call });
    result = { content: [{ type: 'text', text: JSON.stringify(value) }], structuredContent: { ...value } };
  } catch (thrown) {
    failure = await session.explain(toStoreError(thrown));
    const { message, retryAfter, restCode } = failure;
    const body = toErrorBody(failure);
    // Clients act on these two statuses, whatever an upstream calls them.
    const code = [401, 429].includes(failure.status) ? restCode : body.code;
    // An upstream charges nothing for a key that is not valid, or an addition with a read-only one.
    if (failure.status === 401 || body.status === 403) price = cost = 0;
    // Without a valid key, the allowance is that of the address.
    const left = session.keyId && (await session.allowance())?.windows.map(({ remaining }) => remaining);
    const structuredContent = { code, retryAfter, cost: price, remaining: left && Math.min(...left) };
    result = { isError: true, content: [{ type: 'text', text: message }], structuredContent };
  }
  usage?.count({
    keyId: session.keyId as string,
    client: call.clientName,
    operation: `mcp ${name}`,
    deprecated: '',
    cost,
    outcome: outcomeOf(failure !== undefined, failure ? [failure] : []),
  });
  return { cost, failure, result };
}
