import type { PetClientOptions } from './pet-client.js';

/** The options with their defaults, checked. */
export type CheckedOptions = Required<Omit<PetClientOptions, 'url' | 'clientName' | 'signal' | 'dispatcher'>> &
  Pick<PetClientOptions, 'clientName' | 'signal' | 'dispatcher'> & { readonly url: URL };

/** @throws TypeError or RangeError naming the option that is wrong, never with the key */
export function readPetClientOptions(options: PetClientOptions): CheckedOptions {
  const { url, key, maxRootFields = 100, concurrency = 4, waitBudgetMs = 65_000, timeoutMs = 10_000 } = options;
  if (typeof key !== 'string' || !/^[\x21-\x7e]+$/.test(key)) {
    throw new TypeError('key must be an API key: printable ASCII without white space, not empty.');
  }
  const { clientName } = options;
  if (clientName !== undefined && !/^[\x21-\x7e](?:[\x20-\x7e]{0,98}[\x21-\x7e])?$/.test(clientName)) {
    throw new TypeError('clientName must be 1 to 100 printable ASCII characters, without white space at its ends.');
  }
  return {
    ...options,
    url: toUrl(url),
    maxRootFields: toInteger('maxRootFields', maxRootFields, 1, 1_000_000),
    concurrency: toInteger('concurrency', concurrency, 1, 1_000),
    waitBudgetMs: toInteger('waitBudgetMs', waitBudgetMs, 0, MAX_TIMER_MS),
    timeoutMs: toInteger('timeoutMs', timeoutMs, 1, MAX_TIMER_MS),
  };
}

/** What a timer can hold. */
const MAX_TIMER_MS = 2_147_483_647;

function toUrl(url: string | URL): URL {
  const parsed = URL.canParse(String(url)) ? new URL(url) : undefined;
  if (parsed?.protocol === 'http:' || parsed?.protocol === 'https:') return parsed;
  throw new TypeError('url must be the http or https address of a GraphQL endpoint, such as https://host/graphql.');
}

function toInteger(name: string, value: number, minimum: number, maximum: number): number {
  if (Number.isInteger(value) && value >= minimum && value <= maximum) return value;
  throw new RangeError(`${name} must be a whole number from ${minimum} to ${maximum}, got ${String(value)}.`);
}
