import { connect } from 'node:net';

const HEAD_END = Buffer.from('\r\n\r\n');
const LINE_END = Buffer.from('\r\n');
const STATUS_AT = 'HTTP/1.1 '.length;

/** Everything that arrives is looked at before the next arrives, so that one buffer serves all connections. */
const shared = Buffer.allocUnsafeSlow(1 << 18);

/**
 * One kept-alive connection with one request under way. It knows of HTTP what answers to a POST need.
 * `onAnswer(connection, status, buffer, start, end)` gets the body where it lies; it is gone when the call returns.
 */
export class Connection {
  #socket;
  #pending;
  #onAnswer;
  #onFailure;
  sentAt = 0;
  index = 0;
  isWaiting = false;

  constructor(port, onAnswer, onFailure) {
    this.#onAnswer = onAnswer;
    this.#onFailure = onFailure;
    this.#socket = connect({
      port,
      host: '127.0.0.1',
      noDelay: true,
      onread: { buffer: shared, callback: (length, buffer) => this.#read(buffer, length) },
    });
    this.opened = new Promise((resolve) => this.#socket.once('connect', resolve));
    this.#socket.once('error', (error) => this.#fail(error.message));
    this.#socket.once('close', () => this.#fail('the server closed the connection'));
  }

  send(text, index) {
    this.index = index;
    this.isWaiting = true;
    this.sentAt = performance.now();
    this.#socket.write(text, 'latin1');
  }

  close() {
    this.#onFailure = () => undefined;
    this.#socket.destroy();
  }

  #fail(reason) {
    this.#onFailure(reason);
  }

  #read(buffer, length) {
    let bytes = buffer;
    let end = length;
    if (this.#pending !== undefined) {
      bytes = Buffer.concat([this.#pending, buffer.subarray(0, length)]);
      end = bytes.length;
    }
    if (!this.#parse(bytes, end)) this.#pending = Buffer.from(bytes.subarray(0, end));
    return true;
  }

  /** False while the answer is not whole. */
  #parse(bytes, end) {
    const headEnd = bytes.indexOf(HEAD_END);
    if (headEnd === -1 || headEnd + 4 > end) return false;
    const head = bytes.latin1Slice(0, headEnd);
    const status = Number(head.slice(STATUS_AT, STATUS_AT + 3));
    const start = headEnd + 4;
    const length = /\r\ncontent-length: *(\d+)/i.exec(head);
    if (length !== null) {
      const bodyEnd = start + Number(length[1]);
      if (bodyEnd > end) return false;
      this.#answer(status, bytes, start, bodyEnd);
      return true;
    }
    if (!/\r\ntransfer-encoding: *chunked/i.test(head)) {
      this.#fail('an answer without a length');
      return true;
    }
    const body = dechunk(bytes, start, end);
    if (body === undefined) return false;
    this.#answer(status, body, 0, body.length);
    return true;
  }

  #answer(status, bytes, start, end) {
    this.#pending = undefined;
    this.isWaiting = false;
    this.#onAnswer(this, status, bytes, start, end);
  }
}

function dechunk(bytes, start, end) {
  const chunks = [];
  let at = start;
  for (;;) {
    const lineEnd = bytes.indexOf(LINE_END, at);
    if (lineEnd === -1 || lineEnd >= end) return undefined;
    const size = Number.parseInt(bytes.latin1Slice(at, lineEnd), 16);
    const chunkEnd = lineEnd + 2 + size;
    if (chunkEnd + 2 > end) return undefined;
    if (size === 0) return Buffer.concat(chunks);
    chunks.push(bytes.subarray(lineEnd + 2, chunkEnd));
    at = chunkEnd + 2;
  }
}
