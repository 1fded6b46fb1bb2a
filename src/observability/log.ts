import { pino, type Logger } from 'pino';

/** The part of a pino logger that the program uses. */
export type Log = Pick<Logger, 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'child' | 'isLevelEnabled'>;

export interface LogOptions {
  readonly level: string;
  /** Writes lines for a person at a terminal instead of JSON. */
  readonly pretty: boolean;
}

/** Bytes that wait while nobody reads standard output. Once they are reached, the log drops new lines. */
const MAX_BACKLOG_BYTES = 64 * 1_024 * 1_024;
/**
 * Bytes that one write joins. A system call for each line would cost more than the line, but with each line the stream
 * measures what it has joined so far: 4 KiB takes the least CPU time. Linux writes that much to a pipe in one piece.
 */
const WRITE_BYTES = 4_096;
/** The longest time that a line waits for others, in milliseconds. */
const FLUSH_MS = 100;

/** Creates the program's log, which writes to standard output. If a line holds a key by mistake, the log censors it. */
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
    maxWrite: WRITE_BYTES,
    maxLength: MAX_BACKLOG_BYTES,
    periodicFlush: FLUSH_MS,
  });
  return pino(options, standardOutput);
}
