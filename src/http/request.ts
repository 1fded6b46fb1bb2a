import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP, isIPv4, isIPv6 } from 'node:net';
import { CLIENT_NAME_HEADER, parseClientName, redact } from '../access/api-key.js';
import type { UpstreamKey } from '../access/session.js';
import { copyText } from '../copy-text.js';
import { StoreError, type ErrorName } from '../errors.js';

export interface ClientAddress {
  readonly address: string;
  /** As which it is counted: an IPv4 address, or the /64 of an IPv6 address, because a client has all of these. */
  readonly network: string;
}

const REQUEST_ID = /^[\w.:-]{1,128}$/;
const NO_BODY = Buffer.alloc(0);

/** One HTTP request. Handlers only read it. It is the call that a source of animals works for. */
export class HttpRequest {
  readonly method: string;
  /** Without a trailing slash, which makes no difference, and without needless percent-encoding. */
  readonly path: string;
  /** With its question mark, or empty. */
  readonly search: string;
  readonly requestId: string;
  readonly receivedAt = performance.now();
  /** When its body was complete: a slow sender uses up no time of a backend. */
  startedAt = this.receivedAt;
  /** What the event loop has done to read the body, in milliseconds. */
  readingMs = 0;
  /** Complete before a handler is called. Empty without one. */
  body: Buffer = NO_BODY;
  /** Who is charged for the work: the key, once it is known to be valid, otherwise the client's address. */
  caller: string;
  /** The caller's key, in proxy mode. */
  key: UpstreamKey | undefined;
  /** How an agent names itself in its messages. */
  agentName: string | undefined;

  constructor(
    readonly message: IncomingMessage,
    readonly response: ServerResponse,
    readonly client: ClientAddress,
  ) {
    this.caller = client.network;
    const url = toOriginForm(message.url ?? '/');
    const end = url.includes('?') ? url.indexOf('?') : url.length;
    const path = normalizePath(url.slice(0, end));
    this.method = message.method ?? 'GET';
    this.path = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
    this.search = url.slice(end);
    const sent = this.header('x-request-id');
    this.requestId = sent !== undefined && REQUEST_ID.test(sent) && this.redact(sent) === sent ? sent : randomUUID();
  }

  /** Returns a text of this request for the log, unless it contains an API key. */
  redact(text: string): string {
    return redact(text, this.header('authorization'));
  }

  header(name: string): string | undefined {
    const value = this.message.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  get clientName(): string | undefined {
    return parseClientName(this.agentName ?? this.header(CLIENT_NAME_HEADER), this.header('authorization'));
  }

  /** Whether the client disconnected before its response was complete. */
  get isCancelled(): boolean {
    return this.response.destroyed && !this.response.writableFinished;
  }

  /** Calls a listener when the client disconnects, or when its response is complete. */
  onCancel(listener: () => void): void {
    this.response.setMaxListeners(0).once('close', listener);
  }

  offCancel(listener: () => void): void {
    this.response.off('close', listener);
  }
}

/** A request line may contain the complete URL: https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2 */
function toOriginForm(target: string): string {
  if (target.startsWith('/') || !URL.canParse(target)) return target;
  const { pathname, search } = new URL(target);
  return pathname + search;
}

/** No route is longer, in characters. */
const MAX_PATH_LENGTH = 300;

/** Decodes the characters that need no encoding: https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2.2 */
function normalizePath(path: string): string {
  if (path.length > MAX_PATH_LENGTH) return path;
  return path.replace(/%[0-7][0-9a-f]/gi, (encoded) => {
    const character = decodeURIComponent(encoded);
    return /[\w.~-]/.test(character) ? character : encoded;
  });
}

/** In characters. */
const MAX_URL_LENGTH = 16_384;
export const MAX_HEADERS = 200;

/** Refuses a request whose head is too long, or could mean one thing here and another to a proxy in front. */
export function requireValidHead({ url = '', httpVersion, headers, rawHeaders }: IncomingMessage): void {
  if (url.length > MAX_URL_LENGTH) refuse('uri_too_long', 'The URL is too long: send a GraphQL query by POST.');
  if (rawHeaders.length > 2 * MAX_HEADERS) refuse('headers_too_large', `A request may have ${MAX_HEADERS} headers.`);
  // https://www.rfc-editor.org/rfc/rfc9112#section-3.2
  if (httpVersion === '1.1' && headers.host === undefined)
    refuse('invalid_request', 'An HTTP/1.1 request needs a Host header.');
  // Node takes the first of several, and a proxy in front may have checked the last.
  for (const name of ['host', 'authorization', 'content-type']) {
    let count = 0;
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const sent = rawHeaders[index] as string;
      if (sent.length === name.length && sent.toLowerCase() === name) count += 1;
    }
    if (count > 1) refuse('invalid_request', `A request may have one ${name} header.`);
  }
}

function refuse(code: ErrorName, message: string): never {
  throw new StoreError(code, message, { headers: { Connection: 'close' } });
}

/**
 * Finds the address of a request's client.
 * @param trustProxy - whether it is the last address in `X-Forwarded-For`, if that is valid
 */
export function readAddress({ headers, socket }: IncomingMessage, trustProxy: boolean): ClientAddress {
  const { remoteAddress = '' } = socket;
  const sent = trustProxy ? headers['x-forwarded-for'] : undefined;
  if (sent === undefined && isIPv4(remoteAddress)) return { address: remoteAddress, network: remoteAddress };
  const forwarded = String(sent).split(',').at(-1) as string;
  const address = parseAddress(forwarded.trim()) ?? parseAddress(remoteAddress) ?? 'unknown';
  return { address, network: toNetwork(address) };
}

/** Parses an address as a socket or `X-Forwarded-For` states it. Some proxies add the port. */
function parseAddress(text: string): string | undefined {
  const [, bracketed] = /^\[([^\]]*)\](?::\d+)?$/.exec(text) ?? [];
  const address = (bracketed ?? text.replace(/^(\d+(?:\.\d+){3}):\d+$/, '$1'))
    .replace(/^::ffff:(?=\d+\.)/i, '')
    .split('%', 1)[0] as string;
  return isIP(address) === 0 ? undefined : copyText(address);
}

function toNetwork(address: string): string {
  if (!isIPv6(address)) return address;
  // A URL writes the groups without leading zeros, and one run of zeros as "::".
  const text = new URL(`http://[${address}]`).hostname.slice(1, -1);
  // An IPv4 address.
  if (text.startsWith('::ffff:')) return text;
  const groups = text.replace('::', `:${'0:'.repeat(9 - text.split(':').length)}`).split(':');
  return `${groups
    .slice(0, 4)
    .map((group) => group || '0')
    .join(':')}::/64`;
}
