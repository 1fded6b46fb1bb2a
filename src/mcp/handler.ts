import { createBoundedCache } from '../bounded-cache.js';
import { copyText } from '../copy-text.js';
import { StoreError } from '../errors.js';
import { JSON_TYPE, type Reply } from '../http/reply.js';
import type { Api, Route } from '../http/route.js';
import { JsonNumber, parseJsonBody } from '../json/exact-json.js';
import type { McpOptions, Message } from './server.js';

const PATH = '/mcp';
const EXAMPLE = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}';
/** The SDK takes microseconds for each, and a call with fifty ids has about a hundred. */
const MAX_VALUES = 1_000;
const AGENTS = 10_000;

/** Creates the interface for agents: https://modelcontextprotocol.io/specification/2026-07-28 */
export function createMcp(options: McpOptions): Api {
  /** The last agent of each key. In the edition of 2025, it gives its name only once. */
  const agents = createBoundedCache<{ readonly name: string }>(AGENTS);
  const route: Route = {
    name: PATH,
    methods: ['POST'],
    checkHead(request) {
      if (options.cors.accepts(request)) return;
      throw new StoreError('forbidden', 'Pages of this origin may not use /mcp: it is not among CORS_ORIGINS.');
    },
    // A banned key is refused by its call, so that the agent gets a tool error.
    requiresKey: ({ keyId }) => keyId === undefined,
    async handle(http, session) {
      const message = parseJsonBody(http.body, EXAMPLE, MAX_VALUES) as Message | null;
      if (Array.isArray(message)) throw new StoreError('invalid_request', 'Send one message, not a batch.');
      // The SDK would answer a rounded id, which is that of another message.
      if (message?.id instanceof JsonNumber && !Number.isSafeInteger(Number(message.id)))
        throw new StoreError('invalid_request', 'An id must be a string or an integer below 2^53.');
      const { keyId = '' } = session;
      const { _meta, clientInfo } = message?.params ?? {};
      const { name } = _meta?.['io.modelcontextprotocol/clientInfo'] ?? clientInfo ?? {};
      const isCall = message?.method === 'tools/call';
      if (!isCall) await session.requireKey();
      const agent = typeof name === 'string' ? { name: copyText(name.slice(0, 200)) } : agents.get(keyId);
      if (agent && !isCall) agents.set(keyId, agent);
      http.agentName = agent?.name;
      // The SDK brings much that only agents need.
      const { answer } = await import('./server.js');
      return answer(message, http, session, options);
    },
  };
  return { root: PATH, findRoute: (path) => (path === PATH ? route : undefined), toErrorReply };
}

/** Replies to a request that is refused as a whole. https://www.jsonrpc.org/specification#error_object */
function toErrorReply(error: StoreError): Reply {
  const { status, headers, message, restCode, retryAfter } = error;
  const code = error.code === 'bad_request' ? -32_700 : status >= 500 ? -32_603 : -32_600;
  const data = { code: restCode, retryAfter };
  const body = JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message, data } });
  return { status, headers: { 'Content-Type': JSON_TYPE, ...headers }, body, failures: [error] };
}
