/**
 * A queue in which keys take turns. The items of one key leave in the order in which they were pushed.
 *
 * Each key has a linked list. V8 copies an array again and again when items are pushed and shifted, and the garbage
 * collector keeps the items of the old copies. With 1,600 waiting requests, that took a tenth of the CPU time.
 */
export class FairQueue<Item> {
  readonly #linesByKey = new Map<string, Line<Item>>();
  readonly #lines: Line<Item>[] = [];
  /** The index of the line that is next. */
  #turn = 0;

  push(key: string, item: Item): void {
    const node: Node<Item> = { item, next: undefined };
    const line = this.#linesByKey.get(key);
    if (line) {
      line.last.next = node;
      line.last = node;
    } else {
      const newLine = { key, first: node, last: node };
      this.#linesByKey.set(key, newLine);
      this.#lines.push(newLine);
    }
  }

  shift(): Item | undefined {
    if (this.#turn >= this.#lines.length) this.#turn = 0;
    const line = this.#lines[this.#turn];
    if (!line) return undefined;
    const { item, next } = line.first;
    line.first.next = undefined;
    if (next) {
      line.first = next;
      this.#turn += 1;
    } else {
      this.#lines.splice(this.#turn, 1);
      this.#linesByKey.delete(line.key);
    }
    return item;
  }

  /** All items, line by line. */
  *[Symbol.iterator](): Iterator<Item> {
    for (const { first } of this.#lines) {
      for (let node: Node<Item> | undefined = first; node; node = node.next) yield node.item;
    }
  }
}

/** The items of one key. */
interface Line<Item> {
  readonly key: string;
  first: Node<Item>;
  last: Node<Item>;
}

interface Node<Item> {
  readonly item: Item;
  next: Node<Item> | undefined;
}
