/** How long a buffer for short pieces is, in bytes. */
const MIN_ROOM = 64;
const MAX_ROOM = 16_384;

/** The pieces of a body. Short ones are copied together, because each piece takes more memory than its bytes. */
export class Pieces {
  #pieces: Buffer[] = [];
  #bytes = 0;
  /** What follows the pieces: `#used` of its bytes. */
  #room: Buffer | undefined;
  #used = 0;

  add(piece: Buffer): void {
    const { length } = piece;
    if (this.#bytes === 0 || length >= MAX_ROOM) {
      this.#endRoom();
      this.#pieces.push(piece);
    } else {
      if (!this.#room || this.#used + length > this.#room.length) {
        this.#endRoom();
        // As much as the body has so far, so that few bytes are reserved in vain.
        this.#room = Buffer.allocUnsafeSlow(Math.max(length, Math.min(MAX_ROOM, Math.max(MIN_ROOM, this.#bytes))));
      }
      this.#room.set(piece, this.#used);
      this.#used += length;
    }
    this.#bytes += length;
  }

  /** Returns the whole body. */
  join(): Buffer {
    this.#endRoom();
    return this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces);
  }

  #endRoom(): void {
    if (this.#room) this.#pieces.push(this.#room.subarray(0, this.#used));
    this.#room = undefined;
    this.#used = 0;
  }
}
