/** Pieces of at least this many bytes are kept as they are. */
const LARGE_BYTES = 16_384;
/** The shortest and the longest buffer for smaller ones, in bytes. */
const MIN_BUFFER_BYTES = 4_096;
const MAX_BUFFER_BYTES = 65_536;

const NO_BYTES = Buffer.alloc(0);

/**
 * The pieces of a body. Small ones are copied together, so that a body takes the same memory however it is cut. One
 * buffer that grows would copy a large body several times, and V8 collects garbage whenever buffers of a few dozen
 * megabytes have been allocated.
 */
export class Pieces {
  /** The bytes of all pieces. */
  length = 0;
  /** How many there were. */
  count = 0;
  /** The only piece so far. Most bodies come in one, which is not copied. */
  private first: Buffer | undefined;
  private readonly parts: Buffer[] = [];
  /** Small pieces, which become a part when it is full. */
  private buffer = NO_BYTES;
  private used = 0;

  add(piece: Buffer): void {
    const { first } = this;
    if (this.length === 0) this.first = piece;
    else {
      this.first = undefined;
      if (first) this.keep(first);
      this.keep(piece);
    }
    this.length += piece.length;
    this.count += 1;
  }

  join(): Buffer {
    if (this.first) return this.first;
    this.endBuffer();
    return Buffer.concat(this.parts, this.length);
  }

  private keep(piece: Buffer): void {
    if (piece.length < LARGE_BYTES) this.copy(piece);
    else {
      this.endBuffer();
      this.parts.push(piece);
    }
  }

  private copy(piece: Buffer): void {
    for (let copied = 0; copied < piece.length;) {
      if (this.used === this.buffer.length) {
        this.endBuffer();
        const size = Math.min(MAX_BUFFER_BYTES, Math.max(MIN_BUFFER_BYTES, this.length));
        this.buffer = Buffer.allocUnsafeSlow(size);
      }
      const bytes = piece.copy(this.buffer, this.used, copied);
      copied += bytes;
      this.used += bytes;
    }
  }

  private endBuffer(): void {
    if (this.used > 0)
      this.parts.push(this.used < this.buffer.length ? Buffer.from(this.buffer.subarray(0, this.used)) : this.buffer);
    this.buffer = NO_BYTES;
    this.used = 0;
  }
}
