import { pino, type Logger } from 'pino';
import { LineBlocks } from './line-blocks.js';
import type { Log } from './log.js';

/** What is said of a request; none of it is ever a key. */
export interface RequestLine {
  /** A UUID, or of the characters that the program takes for one. */
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** How long it took, in milliseconds. */
  readonly ms: number;
  /** What only some requests have. */
  readonly further: RequestFields;
}

export interface RequestFields {
  /** The identifier of the key. */
  keyId?: string | undefined;
  /** Requests charged. */
  cost?: number;
  /** Names of the operations, or their types where they have none. */
  operations?: string;
  /** True when something deprecated was asked for, by the client of that name. */
  deprecated?: boolean;
  client?: string;
  /** The trace that the request is part of. */
  trace_id?: string;
}

/** Writes the line of a request. */
export type RequestLog = (level: 'info' | 'debug', line: RequestLine) => void;

/**
 * Makes what writes one line for each request, into the stream of the program's log and as pino would, but for a third of
 * the time: the fields are known, and the program's own, so they need neither be searched for keys nor serialized by rules.
 * @param log - where it is no pino log that writes JSON into blocks of lines, it is given the fields
 */
export function createRequestLog(log: Log): RequestLog {
  const stream = (log as Partial<Record<symbol, unknown>>)[pino.symbols.streamSym];
  if (!(stream instanceof LineBlocks)) {
    return (level, { further, ...line }) => {
      if (log.isLevelEnabled(level)) log[level]({ ...line, ms: Number(line.ms.toFixed(2)), ...further }, 'request');
    };
  }
  const { levels, level: least } = log as Logger;
  const format = createLineFormat();
  return (level, line) => {
    const value = levels.values[level] as number;
    if (value >= (levels.values[least] ?? Infinity)) stream.writeAscii(format(value, Date.now(), line));
  };
}

/** Formats a line in ASCII, as of a time in milliseconds since the epoch; `level` is pino's number of it. */
type LineFormat = (level: number, time: number, line: RequestLine) => string;

/** Makes the format of lines. Most of a line is what the one before it had: that is put together, and flat, already. */
function createLineFormat(): LineFormat {
  let start = { level: 0, text: '' };
  let target = { method: '', path: '', status: 0, text: '' };
  let end = { fields: {}, text: formatFurther({}) };
  return (level, time, { requestId, method, path, status, ms, further }) => {
    if (start.level !== level) start = { level, text: `{"level":${level},"time":` };
    if (target.path !== path || target.status !== status || target.method !== method) {
      target = { method, path, status, text: formatTarget(method, path, status) };
    }
    // A copy: what has been logged may still change.
    if (!isSame(further, end.fields)) end = { fields: { ...further }, text: formatFurther(further) };
    return `${start.text}${time},"requestId":"${requestId}"${target.text}${toTwoPlaces(ms)}${end.text}`;
  };
}

function isSame(one: RequestFields, other: RequestFields): boolean {
  return (
    one.keyId === other.keyId &&
    one.cost === other.cost &&
    one.operations === other.operations &&
    one.deprecated === other.deprecated &&
    one.client === other.client &&
    one.trace_id === other.trace_id
  );
}

// Pieces that are joined are one flat text; added up, they would be walked again with every line.

function formatTarget(method: string, path: string, status: number): string {
  return [',"method":"', method, '","path":', quote(path), ',"status":', status, ',"ms":'].join('');
}

function formatFurther({ keyId, cost, operations, deprecated, client, trace_id: traceId }: RequestFields): string {
  const pieces: (string | number | boolean)[] = [];
  if (traceId !== undefined) pieces.push(',"trace_id":"', traceId, '"');
  if (keyId !== undefined) pieces.push(',"keyId":', quote(keyId));
  if (cost !== undefined) pieces.push(',"cost":', cost);
  if (operations !== undefined) pieces.push(',"operations":', quote(operations));
  if (deprecated !== undefined) pieces.push(',"deprecated":', deprecated);
  if (client !== undefined) pieces.push(',"client":', quote(client));
  pieces.push(',"msg":"request"}\n');
  return pieces.join('');
}

const HUNDREDTHS = Array.from({ length: 100 }, (_, i) => `.${String(i).padStart(2, '0')}`);

/** As `toFixed(2)` for a third of the time; numbers are positive here. */
function toTwoPlaces(number: number): string {
  const hundredths = Math.round(number * 100);
  const whole = Math.floor(hundredths / 100);
  return `${whole}${HUNDREDTHS[hundredths - whole * 100]}`;
}

/** Text that is the same in JSON. */
const PLAIN = /^[\w/,.:-]*$/;

/** Text as JSON in ASCII. */
function quote(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text).replace(/[\u0080-\uffff]/g, toUnicodeEscape);
}

function toUnicodeEscape(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
