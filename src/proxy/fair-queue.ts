/** A queue in which keys take turns. The items of one key leave in the order in which they were pushed. */
export class FairQueue<Item> {
  /** The items of each key. The key whose turn is next comes first. */
  readonly #lines = new Map<string, Set<Item>>();

  get size(): number {
    let size = 0;
    for (const line of this.#lines.values()) size += line.size;
    return size;
  }

  /** Whether a key has items. */
  has(key: string): boolean {
    return this.#lines.has(key);
  }

  push(key: string, item: Item): void {
    const line = this.#lines.get(key);
    if (line) line.add(item);
    else this.#lines.set(key, new Set([item]));
  }

  delete(key: string, item: Item): void {
    const line = this.#lines.get(key);
    if (line?.delete(item) && line.size === 0) this.#lines.delete(key);
  }

  /**
   * Removes the next item. Returns its key and the item.
   * @param mayLeave - whether it is a key's turn; keys for which it returns false are skipped
   */
  shift(mayLeave: (key: string) => boolean): readonly [string, Item] | undefined {
    for (const [key, line] of this.#lines) {
      if (!mayLeave(key)) continue;
      const first = line.values().next().value as Item;
      line.delete(first);
      // The other keys have their turns before this one has another.
      this.#lines.delete(key);
      if (line.size > 0) this.#lines.set(key, line);
      return [key, first];
    }
    return undefined;
  }
}
