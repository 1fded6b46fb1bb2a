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

/** Creates the program's log, which writes to standard output. It redacts keys that a line contains by mistake. */
export function createLog({ level, isPretty }: { level: string; isPretty: boolean }): ProgramLog {
  let lost = 0;
  const writer = createLineWriter({ fileDescriptor: 1, onLoss: (lines) => (lost += lines) });
  const options = {
    level,
    base: undefined,
    redact: { paths: ['authorization', 'key', '*.authorization', '*.key'], censor: '[redacted]' },
  };
  const toLine = isPretty
    ? pretty.prettyFactory({ translateTime: 'SYS:HH:MM:ss.l', singleLine: true, colorize: true })
    : undefined;
  const destination = toLine ? { write: (line: string) => writer.write(toLine(line)) } : writer;
  return { log: pino(options, destination), lostLines: () => lost, flush: (callback) => writer.flush(callback) };
}

type LoggedRequest = Pick<HttpRequest, 'requestId' | 'method' | 'path' | 'redact' | 'client'>;

/** Longer paths are cut, in characters. */
const MAX_PATH = 256;

/** Creates the function that writes the log line of a request. pino omits undefined fields. */
export function createRequestLog(log: Log) {
  // The program sets every field itself. Redaction would double the cost of a line.
  const requestLog = log.child({}, { redact: [] });
  return (request: LoggedRequest, route: string, logged: object, status: number, milliseconds: number): void => {
    const { requestId, method, client } = request;
    const path = request.path === route ? route : request.redact(request.path).slice(0, MAX_PATH);
    const ms = Math.round(milliseconds * 100) / 100;
    const line = { requestId, method, path, address: client.address, status, ms, ...logged };
    // Lines of probes would outnumber all others.
    requestLog[route === 'probe' ? 'debug' : 'info'](line, 'request');
  };
}
