export interface PetClientOptions {
  /** The GraphQL endpoint, such as `https://store.example.com/graphql`. */
  readonly url: string | URL;
  /** The API key. The client sends it to `url` and nowhere else. */
  readonly key: string;
  /** A name that the operators of the store see: up to 100 printable ASCII characters. */
  readonly clientName?: string;
  /**
   * The most lookups in one request (default 100). This is the server's `MAX_ROOT_FIELDS`; if the server takes fewer, the
   * client finds out.
   */
  readonly maxRootFields?: number;
  /** The most requests at the same time (default 4). */
  readonly concurrency?: number;
  /** How long a lookup may wait for limits and for a store in trouble, in milliseconds (default 65,000). */
  readonly waitBudgetMs?: number;
  /** How long one request may take, in milliseconds (default 10,000). */
  readonly timeoutMs?: number;
  /** Closes the client when it is aborted. */
  readonly signal?: AbortSignal;
  /** Sends the requests in place of the global `fetch`, for example through a proxy. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** The options with their defaults, validated. */
export type ValidOptions = Required<Omit<PetClientOptions, 'url' | 'clientName' | 'signal'>> &
  Pick<PetClientOptions, 'clientName' | 'signal'> & { readonly url: URL };

/** The longest time that a timer takes. */
const MAX_TIMER_MS = 2_147_483_647;

/** @throws TypeError or RangeError that names the invalid option; it never contains the key */
export function parseOptions(options: PetClientOptions): ValidOptions {
  const { key, clientName, fetch = globalThis.fetch } = options;
  const { maxRootFields = 100, concurrency = 4, waitBudgetMs = 65_000, timeoutMs = 10_000 } = options;
  if (typeof key !== 'string' || !/^[\x21-\x7e]+$/.test(key)) {
    throw new TypeError('key must be an API key: printable ASCII without spaces, not empty.');
  }
  if (clientName !== undefined && !/^[\x21-\x7e](?:[\x20-\x7e]{0,98}[\x21-\x7e])?$/.test(clientName)) {
    throw new TypeError('clientName must be 1 to 100 printable ASCII characters, without spaces at either end.');
  }
  return {
    ...options,
    fetch,
    url: parseUrl(options.url),
    maxRootFields: checkInteger('maxRootFields', maxRootFields, 1, 1_000_000),
    concurrency: checkInteger('concurrency', concurrency, 1, 1_000),
    waitBudgetMs: checkInteger('waitBudgetMs', waitBudgetMs, 0, MAX_TIMER_MS),
    timeoutMs: checkInteger('timeoutMs', timeoutMs, 1, MAX_TIMER_MS),
  };
}

function parseUrl(url: string | URL): URL {
  const parsed = URL.canParse(String(url)) ? new URL(url) : undefined;
  if (parsed?.protocol === 'http:' || parsed?.protocol === 'https:') return parsed;
  throw new TypeError('url must be the http or https address of a GraphQL endpoint, such as https://host/graphql.');
}

function checkInteger(name: string, value: number, minimum: number, maximum: number): number {
  if (Number.isInteger(value) && value >= minimum && value <= maximum) return value;
  throw new RangeError(`${name} must be a whole number from ${minimum} to ${maximum}, got ${String(value)}.`);
}
