import { z } from 'zod';

/**
 * Control characters, also those that show text in another order, characters that some programs take for the end of a
 * line, and the byte order mark. The marks of direction in Hebrew and Arabic text are none of them.
 */
export const UNPRINTABLE = /[\p{Cc}\u202A-\u202E\u2066-\u2069\p{Zl}\p{Zp}\uFEFF]/u;

/** Those that pg knows: https://node-postgres.com/features/ssl */
const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];

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

/** One or more PostgreSQL servers. */
export const databaseUrl = z
  .string()
  .trim()
  // A URL for a Unix socket names no host. Its `host` parameter replaces this one.
  .transform((text) => text.replace(/^(postgres(?:ql)?:\/\/(?:[^/?#@]*@)?)(?=[/?])/, '$1localhost'))
  .refine(
    (text) => splitHosts(text).every(isDatabaseUrl),
    'must be a URL such as postgres://user:password@host:5432/database, or with several hosts ' +
      'postgres://user:password@one:5432,two:5432/database?target_session_attrs=read-write, ' +
      `with an sslmode of ${SSL_MODES.join(', ')}, or without one; % is written as %25 and a space as %20, and there is no ` +
      'dbname, no hostaddr and only one host parameter',
  );

function isDatabaseUrl(text: string): boolean {
  // pg would take a URL with another % for one that is not encoded at all, and encode all of it. After white space, the
  // name of the database would be another URL, and messages would show its password.
  if (!URL.canParse(text) || /\s|%(?![\da-f]{2})/i.test(text)) return false;
  const { protocol, searchParams } = new URL(text);
  const session = searchParams.get('target_session_attrs') ?? 'any';
  return (
    ['postgres:', 'postgresql:'].includes(protocol) &&
    // The program needs a server that accepts writes.
    ['read-write', 'primary', 'any'].includes(session) &&
    SSL_MODES.includes(searchParams.get('sslmode') ?? 'prefer') &&
    // pg ignores these parameters of libpq, and would connect to another database.
    !searchParams.has('dbname') &&
    !searchParams.has('hostaddr') &&
    !searchParams.get('host')?.includes(',')
  );
}

/** Splits a URL with several hosts, as libpq accepts it, into one URL for each host. */
export function splitHosts(text: string): readonly string[] {
  const [, scheme = '', authority = '', end = ''] = /^([\w+]+:\/\/)([^/?#]*)((?:[/?#].*)?)$/s.exec(text) ?? [];
  const at = authority.lastIndexOf('@') + 1;
  const [user, hosts] = [authority.slice(0, at), authority.slice(at)];
  return hosts.split(',').map((host) => scheme + user + host + end);
}
