import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP, isIPv4, isIPv6 } from 'node:net';
import { CLIENT_NAME_HEADER, parseClientName, withhold } from '../access/api-key.js';
import type { WindowState } from '../access/ledger.js';
import { StoreError } from '../errors.js';
import { createRequestFields } from '../observability/log.js';

export interface Reply {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string | Uint8Array;
  /** The caller's windows, for the limit headers. Absent if nothing is counted or the limits are unknown. */
  readonly windows?: readonly WindowState[] | undefined;
}

export interface ClientAddress {
  readonly address: string;
  /** The address as it is counted: an IPv4 address, or the /64 of an IPv6 address. */
  readonly network: string;
}

const REQUEST_ID = /^[\w.:-]{1,128}$/;

/** One HTTP request and the state that its handlers share. */
export class RequestContext {
  readonly method: string;
  /** The path without a trailing slash, which makes no difference. */
  readonly path: string;
  /** With its question mark, or empty. */
  readonly search: string;
  readonly requestId: string;
  readonly startedAt = performance.now();
  /** When its body was complete: a slow sender uses up no time of a backend. */
  arrivedAt = this.startedAt;
  /** What handlers add to the log line of this request. */
  readonly logged = createRequestFields();
  /** True if the response was written before the whole request had arrived. The client may then disconnect first. */
  isAnsweredEarly = false;
  /** The name of the route for metrics. Never the client's path, because that could have any value. */
  route = 'other';
  /** Who pays for new documents: the key, once it is known to be valid, otherwise the client's address. */
  caller: string;
  #cancelListeners: Set<() => void> | undefined;

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    readonly client: ClientAddress,
  ) {
    this.caller = client.network;
    const url = toOriginForm(request.url ?? '/');
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    this.method = request.method ?? 'GET';
    this.path = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
    this.search = mark < 0 ? '' : url.slice(mark);
    const sent = this.header('x-request-id');
    this.requestId = sent !== undefined && REQUEST_ID.test(sent) && this.withhold(sent) === sent ? sent : randomUUID();
  }

  /** Returns a text of this request for the log, unless it contains an API key. */
  withhold(text: string): string {
    return withhold(text, this.header('authorization'));
  }

  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  get clientName(): string | undefined {
    return parseClientName(this.header(CLIENT_NAME_HEADER), this.header('authorization'));
  }

  /** Whether the client disconnected before its response was complete. */
  get isCancelled(): boolean {
    return this.response.destroyed && !this.response.writableFinished;
  }

  /** Calls a listener if the client disconnects from now on, before its response is complete. */
  onCancel(listener: () => void): void {
    this.#cancelListeners ??= this.#watchClose();
    this.#cancelListeners.add(listener);
  }

  offCancel(listener: () => void): void {
    this.#cancelListeners?.delete(listener);
  }

  #watchClose(): Set<() => void> {
    const listeners = new Set<() => void>();
    this.response.on('close', () => {
      if (this.response.writableFinished) return;
      for (const listener of listeners) listener();
    });
    return listeners;
  }
}

/** A request line may contain the complete URL: https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2 */
function toOriginForm(target: string): string {
  if (target.startsWith('/') || !URL.canParse(target)) return target;
  const { pathname, search } = new URL(target);
  return pathname + search;
}

/** Node limits the total size of the headers, but thousands of short headers would fit. */
const MAX_HEADERS = 200;
/** Node takes the first of several, and a proxy in front may have checked the last. */
const SINGLE_HEADERS = ['host', 'authorization'];

/** Refuses a request whose headers could mean one thing here and another to a proxy in front. */
export function requireUnambiguousHeaders({ httpVersion, headers, rawHeaders }: IncomingMessage): void {
  if (rawHeaders.length > 2 * MAX_HEADERS) {
    throw new StoreError('headers_too_large', `A request may have ${MAX_HEADERS} headers.`);
  }
  // https://www.rfc-editor.org/rfc/rfc9112#section-3.2
  if (httpVersion === '1.1' && headers.host === undefined) throw ambiguous('An HTTP/1.1 request needs a Host header.');
  for (const name of SINGLE_HEADERS) {
    const isNamed = (text: string, index: number): boolean =>
      index % 2 === 0 && text.length === name.length && text.toLowerCase() === name;
    if (rawHeaders.filter(isNamed).length > 1) throw ambiguous(`A request may have one ${name} header.`);
  }
}

function ambiguous(message: string): StoreError {
  return new StoreError('invalid_request', message, { headers: { Connection: 'close' } });
}

/**
 * Finds the address of a request's client.
 * @param trustProxy - whether it is the last address in `X-Forwarded-For`, if that is valid
 */
export function readAddress({ headers, socket }: IncomingMessage, trustProxy: boolean): ClientAddress {
  const { remoteAddress = '' } = socket;
  const sent = trustProxy ? headers['x-forwarded-for'] : undefined;
  if (sent === undefined && isIPv4(remoteAddress)) return { address: remoteAddress, network: remoteAddress };
  const forwarded = [sent ?? ''].flat().join().split(',').at(-1) as string;
  const address = parseAddress(forwarded.trim()) ?? parseAddress(remoteAddress) ?? 'unknown';
  return { address, network: toNetwork(address) };
}

/** Parses an address as a socket or `X-Forwarded-For` states it. Some proxies add the port. */
function parseAddress(text: string): string | undefined {
  const [, bracketed] = /^\[([^\]]*)\](?::\d+)?$/.exec(text) ?? [];
  const address = (bracketed ?? text.replace(/^(\d+(?:\.\d+){3}):\d+$/, '$1'))
    .replace(/^::ffff:(?=\d+\.)/i, '')
    .replace(/%.*$/s, '');
  // A copy, because V8 keeps the whole header in memory as long as a part of it is used.
  return isIP(address) === 0 ? undefined : Buffer.from(address).toString();
}

/** Returns what one client is counted by. A client has a whole /64 of IPv6 addresses. */
function toNetwork(address: string): string {
  if (!isIPv6(address)) return address;
  // A URL writes the groups without leading zeros, and at most one run of zeros as "::".
  const text = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const complete = text.replace('::', `:${'0:'.repeat(9 - text.split(':').length)}`);
  const groups = complete.split(':').map((group) => group || '0');
  return `${groups.slice(0, 4).join(':')}::/64`;
}

/** Shortens an address for the log: to a /24 of IPv4, or a /64 of IPv6. */
export function toPrefix(address: string): string {
  return isIPv4(address) ? address.replace(/\d+$/, '0/24') : toNetwork(address);
}
