import { isIPv4 } from 'node:net';
import type { RequestContext } from '../http/request-context.js';

/** The headers that proxies add. Each proxy adds some of them. */
const FORWARDED = ['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'];

/**
 * Whether the explorer's page in a browser on this machine sent a request. Each check stops another attack:
 *
 * - The connection comes from a loopback address, so the client is on this machine.
 * - The `Host` is a loopback name, which stops pages of other sites that point their own name here (DNS rebinding).
 * - The `Origin` matches the `Host`, which stops other pages on this machine, and most tunnels that rewrite `Host`.
 * - No proxy has added a header.
 */
export function isLocalOrigin(context: RequestContext): boolean {
  const host = context.header('host') ?? '';
  return (
    isLoopbackAddress(context.request.socket.remoteAddress ?? '') &&
    isLoopbackName(host) &&
    context.header('origin') === `http://${host}` &&
    FORWARDED.every((name) => context.header(name) === undefined)
  );
}

function isLoopbackAddress(address: string): boolean {
  const plain = address.replace(/^::ffff:/, '');
  return plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'));
}

function isLoopbackName(host: string): boolean {
  return /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/.test(host);
}
