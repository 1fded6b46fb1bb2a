import { write } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

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

const writeBytes = promisify(write);

/**
 * Writes lines in the background. A file that cannot be written, such as one on a full disk or a closed terminal, loses
 * lines, and neither ends nor blocks the program.
 */
export function createLineWriter({ fileDescriptor, onLoss }: LineWriterOptions) {
  let waiting = '';
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;

  return {
    write(line: string): void {
      if (waiting.length + line.length > MAX_WAITING) {
        onLoss(1);
        return;
      }
      waiting += line;
      if (waiting.length >= WRITE_LENGTH) void flush();
      else timer ??= setTimeout(() => void flush(), WAIT_MS);
    },
    flush,
  };

  /** Resolves when all lines have been written or lost. While a pipe is not read, that may be never. */
  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    if (waiting === '') return writing ?? Promise.resolve();
    return (writing ??= writeWaiting());
  }

  async function writeWaiting(): Promise<void> {
    while (waiting !== '') {
      const bytes = Buffer.from(waiting);
      waiting = '';
      try {
        await writeAll(bytes);
      } catch {
        onLoss(bytes.filter((byte) => byte === LINE_FEED).length);
      }
    }
    writing = undefined;
  }

  async function writeAll(bytes: Buffer): Promise<void> {
    for (let start = 0; start < bytes.length;) {
      try {
        start += (await writeBytes(fileDescriptor, bytes, start)).bytesWritten;
      } catch (error) {
        // A pipe that nobody reads at the moment.
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
        await sleep(WAIT_MS);
      }
    }
  }
}
