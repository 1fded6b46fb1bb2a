import { pino, type Logger } from 'pino';

/** The part of a pino logger that the program uses. */
export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'child'>;

export interface LogOptions {
  readonly level: string;
  /** Writes lines for a person at a terminal instead of JSON. */
  readonly pretty: boolean;
}

/** The most bytes that wait while standard output is blocked. The log drops lines beyond them. */
const MAX_BACKLOG_BYTES = 64 * 1_024 * 1_024;
/**
 * How many bytes to collect for one write. Each write wakes another thread, which costs more than formatting a line.
 * But for each line, the stream measures all bytes that it has collected. 16 KiB is a compromise, and pino's own limit
 * for one write.
 */
const WRITE_BYTES = 16 * 1_024;
/** The longest time that a line waits for others, in milliseconds. */
const FLUSH_MS = 100;

/** Creates the program's log, which writes to standard output. It redacts keys that a line contains by mistake. */
export function createLog({ level, pretty }: LogOptions): Logger {
  const options = {
    level,
    base: undefined,
    redact: { paths: ['authorization', 'key', '*.authorization', '*.key'], censor: '[redacted]' },
  };
  if (pretty) {
    const format = { translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' };
    return pino({ ...options, transport: { target: 'pino-pretty', options: format } });
  }
  const standardOutput = pino.destination({
    dest: 1,
    sync: false,
    minLength: WRITE_BYTES - 1,
    maxLength: MAX_BACKLOG_BYTES,
    periodicFlush: FLUSH_MS,
  });
  return pino(options, standardOutput);
}
