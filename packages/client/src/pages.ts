import type { ListOptions, Pet } from './client.js';

const LARGEST = 100;
const LEAST_ID = -(2n ** 63n);

/** A list that contains every animal with an id from `first` to `last`. */
export interface Page {
  readonly first: bigint;
  last: bigint;
}

/** Covers ids with as few pages as possible. */
export function toPages(ids: readonly string[]): readonly Page[] {
  const pages: Page[] = [];
  for (const id of sortIds(ids).map(BigInt)) {
    const page = pages.at(-1);
    if (page && id - page.first < LARGEST) page.last = id;
    else pages.push({ first: id, last: id });
  }
  return pages;
}

/** The arguments of the list. An animal may have each id of the page. */
export function toArguments({ first, last }: Page) {
  return { after: first === LEAST_ID ? null : String(first - 1n), limit: Number(last - first) + 1 };
}

export function sortIds(ids: readonly string[]): string[] {
  return [...ids].sort((a, b) => Number(BigInt(a) - BigInt(b)));
}

/** Lists animals, page after page. It asks for a page when its caller takes the page's first animal. */
export async function* walk(
  list: (options: ListOptions) => Promise<readonly Pet[]>,
  options: Omit<ListOptions, 'limit'>,
): AsyncGenerator<Pet, void, undefined> {
  for (let { after } = options; ;) {
    const page = await list({ ...options, after, limit: LARGEST });
    for (const pet of page) {
      options.signal?.throwIfAborted();
      yield pet;
    }
    const last = page[LARGEST - 1];
    if (!last) return;
    after = last.id;
  }
}
