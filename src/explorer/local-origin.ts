import { isIPv4 } from 'node:net';
import type { RequestContext } from '../http/request-context.js';

/** What proxies add, each in its own way. */
const FORWARDED = ['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'];

/**
 * Tells whether a request comes from the explorer's page in a browser on this machine: over a connection of this machine,
 * to a name of this machine, from a page of that name, and through no proxy that says so. The name is what stands against a
 * page of another site whose name has been made to lead here (DNS rebinding), the origin against other pages of this machine
 * and against most tunnels that rewrite the name.
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
