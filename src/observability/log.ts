import { pino, type Logger } from 'pino';
import pretty from 'pino-pretty';
import type { HttpRequest } from '../http/request.js';
import { createLineWriter } from './lines.js';

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'child'>;

export interface ProgramLog {
  readonly log: Logger;
  /** The lines that could not be written so far. */
  readonly lostLines: () => number;
  /** Calls back when all lines have been written or lost. */
  readonly flush: (callback: () => void) => void;
}

/** Creates the program's log, which writes to standard output. */
export function createLog({ level, isPretty }: { level: string; isPretty: boolean }): ProgramLog {
  let lost = 0;
  const writer = createLineWriter({ fileDescriptor: 1, onLoss: (lines) => (lost += lines) });
  const toLine = isPretty
    ? pretty.prettyFactory({ translateTime: 'SYS:HH:MM:ss.l', singleLine: true, colorize: true })
    : undefined;
  const destination = toLine ? { write: (line: string) => writer.write(toLine(line)) } : writer;
  return {
    log: pino({ level, base: undefined }, destination),
    lostLines: () => lost,
    flush: (callback) => void writer.flush().then(callback),
  };
}

type LoggedRequest = Pick<HttpRequest, 'requestId' | 'method' | 'path' | 'redact' | 'client'>;

/** Longer paths are cut, in characters. */
const MAX_PATH = 256;

/** Creates the function that writes the log line of a request. pino omits undefined fields. */
export function createRequestLog(log: Log) {
  return (request: LoggedRequest, route: string, logged: object, status: number, milliseconds: number): void => {
    const { requestId, method, client } = request;
    const path = request.path === route ? route : request.redact(request.path).slice(0, MAX_PATH);
    const ms = Math.round(milliseconds * 100) / 100;
    const line = { requestId, method, path, address: client.address, status, ms, ...logged };
    // Lines of probes would outnumber all others.
    log[route === 'probe' ? 'debug' : 'info'](line, 'request');
  };
}
