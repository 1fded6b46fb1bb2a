import { write } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { pino, type Logger } from 'pino';
import pretty from 'pino-pretty';
import type { RoutedReply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'child'>;

/** Lines are written together, because each write wakes another thread. Longer waits cost memory: `bench/README.md`. */
const WAIT_MS = 25;
/** The most characters that wait while standard output is written slowly. */
const MAX_WAITING = 8 * 1_024 * 1_024;

const writeBytes = promisify(write);

/**
 * Creates the program's log, which writes to standard output in the background. If that is impossible, as on a full disk
 * or a closed terminal, or too slow, lines are lost. That neither ends nor blocks the program.
 */
export function createLog({ level, isPretty }: { level: string; isPretty: boolean }) {
  const toLine = isPretty
    ? pretty.prettyFactory({ translateTime: 'SYS:HH:MM:ss.l', singleLine: true, colorize: true })
    : String;
  let waiting = '';
  let writing: Promise<void> | undefined;
  let lost = 0;
  /** Whether what was written last may end within a line. */
  let isCut = false;

  return {
    log: pino({ level, base: undefined }, { write: (line: string) => add(toLine(line)) }),
    /** The lines that could not be written so far. */
    lostLines: (): number => lost,
    /** Resolves when all lines have been written or lost. While a pipe is not read, that may be never. */
    flush: async (): Promise<void> => writing,
  };

  function add(line: string): void {
    if (waiting.length + line.length > MAX_WAITING) lost += 1;
    else waiting += line;
    writing ??= writeWaiting();
  }

  async function writeWaiting(): Promise<void> {
    while (waiting !== '') {
      await sleep(WAIT_MS);
      const lines = waiting;
      waiting = '';
      try {
        await writeAll(Buffer.from(isCut ? `\n${lines}` : lines));
        isCut = false;
      } catch {
        isCut = true;
        lost += lines.split('\n').length - 1;
      }
    }
    writing = undefined;
  }
}

async function writeAll(bytes: Buffer): Promise<void> {
  for (let start = 0; start < bytes.length;) {
    try {
      start += (await writeBytes(1, bytes, start)).bytesWritten;
    } catch (error) {
      // A pipe that nobody reads at the moment.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      await sleep(WAIT_MS);
    }
  }
}

/** Creates the function that writes the log line of a request. pino omits undefined fields. */
export function createRequestLog(log: Log) {
  return (request: HttpRequest, { reply, route, keyId }: RoutedReply, status: number, milliseconds: number): void => {
    const { requestId, method } = request;
    const { address } = request.client;
    const path = request.path === route ? route : request.redact(request.path).slice(0, 256);
    const ms = Math.round(milliseconds * 100) / 100;
    const line = { requestId, method, path, address, status, ms, keyId, ...reply.logged };
    // Lines of probes would outnumber all others.
    log[route === 'probe' ? 'debug' : 'info'](line, 'request');
  };
}
