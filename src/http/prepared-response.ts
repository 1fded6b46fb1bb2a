import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';

/** What Node makes the head of a response with. No documentation names it, hence the look at what is sent, below. */
interface HeadMaker {
  _storeHeader(statusLine: string, headers: unknown): void;
}

const nodeResponse = ServerResponse.prototype as unknown as HeadMaker;

/**
 * A response that takes header lines as they are to be sent. Node checks and joins every header on its own, which for the five
 * of the limits was a twentieth of a short request. All that Node does besides is left to it.
 */
export class PreparedResponse<Request extends IncomingMessage = IncomingMessage>
  extends ServerResponse<Request>
  implements HeadMaker
{
  #lines = '';

  /**
   * Adds header lines, before `writeHead`.
   * @param lines - each with its CRLF, and made by this program alone: nobody checks them again
   * @param headers - what `writeHead` will be given, names and values in turn: they go there if Node does not take lines
   * @param areTaken - whether this Node does
   */
  addLines(lines: string, headers: string[], areTaken = areLinesTaken): void {
    if (areTaken) this.#lines += lines;
    else for (const line of lines.split('\r\n').slice(0, -1)) headers.push(...toPair(line));
  }

  /** Called by Node's `writeHead`. */
  _storeHeader(statusLine: string, headers: unknown): void {
    nodeResponse._storeHeader.call(this, statusLine + this.#lines, headers);
  }
}

function toPair(line: string): [name: string, value: string] {
  const colon = line.indexOf(':');
  return [line.slice(0, colon), line.slice(colon + 1).trim()];
}

/** Whether lines come where they should in what this Node sends. */
const areLinesTaken = ((): boolean => {
  let sent = '';
  const socket = new Socket();
  socket.write = (data: string | Uint8Array) => {
    sent += String(data);
    return true;
  };
  const request = Object.assign(new IncomingMessage(socket), {
    method: 'GET',
    httpVersionMajor: 1,
    httpVersionMinor: 1,
  });
  const response = new PreparedResponse(request);
  response.assignSocket(socket);
  response.addLines('A: 1\r\nB: 2\r\n', [], true);
  response.writeHead(200, ['C', '3', 'Content-Length', '0']).end();
  return sent.startsWith('HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nC: 3\r\nContent-Length: 0\r\n');
})();
