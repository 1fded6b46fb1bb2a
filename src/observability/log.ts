import { pino, type Logger } from 'pino';
import type { HttpRequest } from '../http/request.js';

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'child'>;

/** The most bytes that wait while standard output is blocked. The log drops lines beyond them. */
const MAX_BACKLOG_BYTES = 64 * 1_024 * 1_024;
/** How many bytes to collect for one write, because each write wakes another thread: as many as a pipe holds. */
const WRITE_BYTES = 64 * 1_024;
/** The longest time that a line waits for others, in milliseconds. */
const FLUSH_MS = 100;

/** Creates the program's log, which writes to standard output. It redacts keys that a line contains by mistake. */
export function createLog({ level, pretty }: { level: string; pretty: boolean }): Logger {
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
    contentMode: 'buffer',
  });
  const destination = {
    // With text, the stream would measure all that it has collected for each line. Its types know of text only.
    write: (line: string) => standardOutput.write(Buffer.from(line) as unknown as string),
    flush: (callback: (error?: Error) => void) => standardOutput.flush(callback),
    flushSync: () => standardOutput.flushSync(),
  };
  return pino(options, destination);
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
