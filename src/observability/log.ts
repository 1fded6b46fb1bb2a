import { pino, type Logger } from 'pino';

export type Log = Pick<Logger, 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

export interface LogOptions {
  readonly level: string;
  /** Readable lines for a person at a terminal instead of JSON. */
  readonly pretty: boolean;
}

/** Makes the program's log. It writes to standard output; nothing that it is given should hold a key, and if it does, it is cut out. */
export function createLog({ level, pretty }: LogOptions): Logger {
  return pino({
    level,
    base: undefined,
    redact: { paths: ['authorization', 'key', '*.authorization', '*.key'], censor: '[redacted]' },
    ...(pretty && {
      transport: { target: 'pino-pretty', options: { translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' } },
    }),
  });
}
