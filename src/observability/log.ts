import { pino, type Logger } from 'pino';
import { LineBlocks, type BlockDestination } from './line-blocks.js';

export type Log = Pick<Logger, 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'child' | 'isLevelEnabled'>;

export interface LogOptions {
  readonly level: string;
  /** Readable lines for a person at a terminal instead of JSON. */
  readonly pretty: boolean;
}

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
    : pino(options, openStandardOutput());
}

function openStandardOutput(): LineBlocks {
  // Its own handler of `exit` writes what it has got; what is still being collected must have got there before.
  process.once('exit', () => lines.flush());
  const blocks = { dest: 1, sync: false, contentMode: 'buffer', maxLength: MAX_BACKLOG } as const;
  const lines = new LineBlocks(pino.destination(blocks) as unknown as BlockDestination);
  return lines;
}
