import { pino, type Logger } from 'pino';
import type { RequestContext } from '../http/request-context.js';

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

/** Creates the fields of a log line that only some requests have, in their order. No field ever contains a key. */
export const createRequestFields = () => ({
  keyId: undefined as string | undefined,
  /** Requests charged. */
  cost: undefined as number | undefined,
  /** The names of the operations. An operation without a name is listed by its type. */
  operations: undefined as string | undefined,
  deprecated: undefined as boolean | undefined,
  /** The names and ids of documents that are not trusted. */
  untrusted: undefined as string | undefined,
  /** The client's name, if the request used something deprecated or not trusted. */
  client: undefined as string | undefined,
});

type LoggedRequest = Pick<RequestContext, 'requestId' | 'method' | 'path' | 'route' | 'logged' | 'withhold'>;

/** Longer paths are cut, in characters. */
const MAX_PATH = 256;

/** Creates the function that writes the log line of a request. pino omits undefined fields. */
export function createRequestLog(log: Log) {
  // The program sets every field itself. Redaction would double the cost of a line.
  const requestLog = log.child({}, { redact: [] });
  return (context: LoggedRequest, address: string | undefined, status: number, milliseconds: number): void => {
    const { requestId, method, route, logged } = context;
    const path = context.path === route ? route : context.withhold(context.path).slice(0, MAX_PATH);
    const ms = Math.round(milliseconds * 100) / 100;
    const line = { requestId, method, path, address, status, ms, ...logged };
    // Lines of probes would outnumber all others.
    requestLog[route === 'probe' ? 'debug' : 'info'](line, 'request');
  };
}
