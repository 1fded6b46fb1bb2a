import { write } from 'node:fs';

export interface LineWriterOptions {
  /** Such as 1, standard output. */
  readonly fileDescriptor: number;
  /** Called when lines are lost, with their number: the file cannot be written, or is written too slowly. */
  readonly onLoss: (lines: number) => void;
}

const LINE_FEED = 10;
/** How many characters are written at once, because each write wakes another thread, and how long a line waits. */
const WRITE_LENGTH = 65_536;
const WAIT_MS = 100;
/** The most characters that wait while the file is written slowly. */
const MAX_WAITING = 8 * 1_024 * 1_024;

/**
 * Writes lines in the background. A file that cannot be written, such as one on a full disk or a closed terminal, loses
 * lines, and neither ends nor blocks the program.
 */
export function createLineWriter({ fileDescriptor, onLoss }: LineWriterOptions) {
  let waiting = '';
  let isWriting = false;
  let timer: NodeJS.Timeout | undefined;
  let onWritten: (() => void)[] = [];

  return {
    write(line: string): void {
      if (waiting.length + line.length > MAX_WAITING) {
        onLoss(1);
        return;
      }
      waiting += line;
      if (waiting.length >= WRITE_LENGTH) start();
      else timer ??= setTimeout(start, WAIT_MS);
    },
    /** Calls back when all lines have been written or lost. While a pipe is not read, that may be never. */
    flush(callback: () => void): void {
      onWritten.push(callback);
      start();
    },
  };

  function start(): void {
    clearTimeout(timer);
    timer = undefined;
    if (isWriting) return;
    if (waiting === '') {
      for (const callback of onWritten) callback();
      onWritten = [];
      return;
    }
    isWriting = true;
    const bytes = Buffer.from(waiting);
    waiting = '';
    send(bytes);
  }

  function send(bytes: Buffer): void {
    write(fileDescriptor, bytes, (error, written) => {
      // A pipe that nobody reads at the moment.
      if (error?.code === 'EAGAIN') {
        setTimeout(send, WAIT_MS, bytes);
        return;
      }
      if (!error && written < bytes.length) {
        send(bytes.subarray(written));
        return;
      }
      if (error) onLoss(bytes.filter((byte) => byte === LINE_FEED).length);
      isWriting = false;
      if (waiting !== '' || onWritten.length > 0) start();
    });
  }
}
