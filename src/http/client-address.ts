import type { IncomingMessage } from 'node:http';
import { isIP, isIPv4, isIPv6 } from 'node:net';

/** A client's address. */
export interface ClientAddress {
  readonly address: string;
  /** The address as it is counted: an IPv4 address, or the /64 of an IPv6 address. */
  readonly network: string;
}

const UNKNOWN: ClientAddress = { address: 'unknown', network: 'unknown' };

/**
 * Makes the function that finds the client's address of a request.
 * @param trustProxy - whether it is the last address in `X-Forwarded-For`, if that is valid
 */
export function createAddressReader(trustProxy: boolean): (request: IncomingMessage) => ClientAddress {
  return ({ headers, socket }) => {
    const forwarded = trustProxy
      ? [headers['x-forwarded-for'] ?? []].flat().join().split(',').at(-1)?.trim()
      : undefined;
    const { remoteAddress = '' } = socket;
    if (forwarded === undefined && isIPv4(remoteAddress)) return { address: remoteAddress, network: remoteAddress };
    const address = parseAddress(forwarded ?? '') ?? parseAddress(remoteAddress);
    return address === undefined ? UNKNOWN : { address, network: toNetwork(address) };
  };
}

/**
 * Parses a client address, as a socket or `X-Forwarded-For` states it. Some proxies add the port.
 * @returns undefined if the text is not an IP address
 */
function parseAddress(text: string): string | undefined {
  const [, bracketed] = /^\[([^\]]*)\](?::\d+)?$/.exec(text) ?? [];
  const address = (bracketed ?? text.replace(/^(\d+(?:\.\d+){3}):\d+$/, '$1'))
    .replace(/^::ffff:(?=\d+\.)/i, '')
    .replace(/%.*$/s, '');
  // A copy, because V8 keeps the whole header in memory as long as a part of it is used.
  return isIP(address) === 0 ? undefined : Buffer.from(address).toString();
}

/**
 * Returns the network of an address: what one client is counted by. A client has a whole /64 of IPv6 addresses.
 * @param address - as `parseAddress` returns it; any other text is returned as it is
 */
function toNetwork(address: string): string {
  if (!isIPv6(address)) return address;
  // A URL writes the groups without leading zeros, and at most one run of zeros as "::".
  const [head = '', tail = ''] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const [first, last] = [head, tail].map((groups) => groups.split(':').filter((group) => group !== ''));
  const zeros = Array.from({ length: 8 - (first?.length ?? 0) - (last?.length ?? 0) }, () => '0');
  return `${[...(first ?? []), ...zeros, ...(last ?? [])].slice(0, 4).join(':')}::/64`;
}

/** Shortens an address to the network that a provider gives to several customers or to one: a /24 of IPv4, a /64 of IPv6. */
export function toPrefix(address: string): string {
  return isIPv4(address) ? address.replace(/\d+$/, '0/24') : toNetwork(address);
}
