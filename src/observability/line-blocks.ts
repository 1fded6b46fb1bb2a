/** Takes blocks of bytes: the part of sonic-boom that is needed. */
export interface BlockDestination {
  write(block: Buffer): unknown;
  flush(done?: (error?: Error) => void): void;
  flushSync(): void;
  /** Calls back whenever all that it was given is written. */
  on(event: 'drain', listener: () => void): unknown;
}

/** What a pipe holds. A write wakes another thread, so blocks of a quarter of this took three times as much. */
const BLOCK_BYTES = 64 * 1_024;
/** Blocks kept for further use: making one costs as much as filling it. */
const MAX_SPARE_BLOCKS = 4;
/** A line waits so long at the most, in milliseconds. */
const COLLECT_MS = 50;
/** Bytes that a UTF-16 code unit takes in UTF-8 at the most. */
const MAX_BYTES_PER_UNIT = 3;

/**
 * Collects lines in blocks of 64 KiB, or for 50 ms, before they are written: a write for each line costs more than all
 * the rest of it, and lines that are kept as text until then cost the garbage collector as much.
 */
export class LineBlocks {
  #block: Buffer = Buffer.allocUnsafeSlow(BLOCK_BYTES);
  #used = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Blocks that the destination still reads. */
  #lent: Buffer[] = [];
  #spare: Buffer[] = [];

  constructor(private readonly destination: BlockDestination) {
    destination.on('drain', () => {
      this.#spare = [...this.#spare, ...this.#lent].slice(0, MAX_SPARE_BLOCKS);
      this.#lent = [];
    });
  }

  /** @param line - with its line feed */
  write(line: string): void {
    if (this.#makeRoom(line.length * MAX_BYTES_PER_UNIT)) this.#advance(this.#block.write(line, this.#used));
    else this.destination.write(Buffer.from(line));
  }

  /** @param line - of ASCII characters alone, with its line feed */
  writeAscii(line: string): void {
    if (this.#makeRoom(line.length)) this.#advance(this.#block.write(line, this.#used, 'latin1'));
    else this.destination.write(Buffer.from(line, 'latin1'));
  }

  /** Passes on what has been collected; `done` is called when it is written. */
  flush(done?: (error?: Error) => void): void {
    this.#send();
    this.destination.flush(done);
  }

  /** Writes what has been collected before it returns. */
  flushSync(): void {
    this.#send();
    this.destination.flushSync();
  }

  /** Tells whether so many bytes can be in a block at all; if so, there is room for them now. */
  #makeRoom(bytes: number): boolean {
    if (this.#used + bytes <= BLOCK_BYTES) return true;
    this.#send();
    return bytes <= BLOCK_BYTES;
  }

  #advance(bytes: number): void {
    this.#used += bytes;
    this.#timer ??= setTimeout(() => this.#send(), COLLECT_MS).unref();
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#used === 0) return;
    const full = this.#block.subarray(0, this.#used);
    this.#lent.push(this.#block);
    this.#block = this.#spare.pop() ?? Buffer.allocUnsafeSlow(BLOCK_BYTES);
    this.#used = 0;
    this.destination.write(full);
  }
}
