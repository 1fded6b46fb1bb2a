import type { IncomingMessage } from 'node:http';
import { isIP, isIPv4, isIPv6 } from 'node:net';

export interface ClientAddress {
  readonly address: string;
  /** The address as it is counted: an IPv4 address, or the /64 of an IPv6 address. */
  readonly network: string;
}

/**
 * Creates the function that finds the address of a request's client.
 * @param trustProxy - whether it is the last address in `X-Forwarded-For`, if that is valid
 */
export function createAddressReader(trustProxy: boolean): (request: IncomingMessage) => ClientAddress {
  return ({ headers, socket }) => {
    const forwarded = trustProxy
      ? [headers['x-forwarded-for'] ?? []].flat().join().split(',').at(-1)?.trim()
      : undefined;
    const { remoteAddress = '' } = socket;
    if (forwarded === undefined && isIPv4(remoteAddress)) return { address: remoteAddress, network: remoteAddress };
    const address = parseAddress(forwarded ?? '') ?? parseAddress(remoteAddress) ?? 'unknown';
    return { address, network: toNetwork(address) };
  };
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
