import { pino, type Logger } from 'pino';

export type Log = Pick<Logger, 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'child'>;

export interface LogOptions {
  readonly level: string;
  /** Readable lines for a person at a terminal instead of JSON. */
  readonly pretty: boolean;
}

/** Lines of JSON are collected for this long or up to this many bytes: a write costs as much as all the rest of a line. */
const COLLECT = { periodicFlush: 50, minLength: 8_192 } as const;
/** Bytes that are kept at the most while nobody takes them; further lines are lost, rather than the program. */
const MAX_BACKLOG = 64 * 1_024 * 1_024;

/** Makes the program's log. It writes to standard output; nothing that it is given should hold a key, and if it does, it is cut out. */
export function createLog({ level, pretty }: LogOptions): Logger {
  const options = {
    level,
    base: undefined,
    redact: { paths: ['authorization', 'key', '*.authorization', '*.key'], censor: '[redacted]' },
  };
  return pretty
    ? pino({
        ...options,
        transport: { target: 'pino-pretty', options: { translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' } },
      })
    : pino(options, pino.destination({ dest: 1, sync: false, maxLength: MAX_BACKLOG, ...COLLECT }));
}

/** The log for lines whose every field is the program's own: they are not searched for keys, which takes longer than to write them. */
export function withoutSearch(log: Log): Log {
  return log.child({}, { redact: [] });
}
