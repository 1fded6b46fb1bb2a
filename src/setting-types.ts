import { z } from 'zod';

/** Control characters, and characters that some programs take for the end of a line. */
export const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}]/u;

export const flag = z.enum(['true', 'false'], 'must be true or false').transform((text) => text === 'true');

export function oneOf<const Values extends readonly string[]>(values: Values) {
  return z.enum(values, `must be one of ${values.join(', ')}`);
}

/** A whole number, in digits. Both ends are allowed. */
export function integer(minimum: number, maximum: number) {
  const expected = `must be a whole number from ${minimum} to ${maximum}`;
  return z
    .string()
    .regex(/^\d{1,15}$/, expected)
    .transform(Number)
    .refine((value) => value >= minimum && value <= maximum, expected);
}

/** @param protocols - with their colons, such as `https:` */
export function url(protocols: readonly string[], expected: string, isValid: (url: URL) => boolean = () => true) {
  return z.string().refine((text) => isValidUrl(text, protocols, isValid), expected);
}

function isValidUrl(text: string, protocols: readonly string[], isValid: (url: URL) => boolean): boolean {
  return URL.canParse(text) && protocols.includes(new URL(text).protocol) && isValid(new URL(text));
}

/** One or more PostgreSQL servers. */
export function databaseUrl(expected: string) {
  const protocols = ['postgres:', 'postgresql:'];
  return (
    z
      .string()
      // A URL for a Unix socket names no host. Its `host` parameter replaces this one.
      .transform((text) => text.replace(/^(postgres(?:ql)?:\/\/(?:[^/?#@]*@)?)\//, '$1localhost/'))
      .refine((text) => splitHosts(text).every((one) => isValidUrl(one, protocols, namesPrimary)), expected)
      .refine(
        (text) => splitHosts(text).every((one) => isValidUrl(one, protocols, hasSslMode)),
        `must be a URL with an sslmode of ${SSL_MODES.join(', ')}, or without one`,
      )
  );
}

/** The program needs a server that accepts writes. */
function namesPrimary({ searchParams }: URL): boolean {
  return ['read-write', 'primary', 'any'].includes(searchParams.get('target_session_attrs') ?? 'any');
}

/** Those that pg knows: https://node-postgres.com/features/ssl */
const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];

function hasSslMode({ searchParams }: URL): boolean {
  return SSL_MODES.includes(searchParams.get('sslmode') ?? 'prefer');
}

/** Splits a URL with several hosts, as libpq accepts it, into one URL for each host. */
export function splitHosts(text: string): readonly string[] {
  const [, scheme = '', authority = '', end = ''] = /^([\w+]+:\/\/)([^/?#]*)((?:[/?#].*)?)$/s.exec(text) ?? [];
  const at = authority.lastIndexOf('@') + 1;
  const [user, hosts] = [authority.slice(0, at), authority.slice(at)];
  return hosts.split(',').map((host) => scheme + user + host + end);
}
