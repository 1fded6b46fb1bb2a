/**
 * The animals of every run: the same ten thousand in PostgreSQL and in the upstream of proxy mode. Each is derived from
 * its id, so the benchmark knows what every answer must be.
 */
export const ANIMAL_COUNT = 10_000;

const NAMES = 'Bella Milo Luna Charlie Daisy Rocky Molly Oscar Willow Max Ginger Sam'.split(' ');
/** Six in ten are available, two are pending, one is sold, and one has no status. */
const STATUSES = Array.from('aapasanapa', (letter) => ({ a: 'available', p: 'pending', s: 'sold', n: null })[letter]);

/** The animal as the database stores it: ids as text, status in lower case. */
export function animal(id) {
  return {
    id: String(id),
    name: `${NAMES[id % NAMES.length]} ${id}`,
    categoryId: String(1 + (id % 25)),
    status: STATUSES[id % STATUSES.length],
  };
}

export const ANIMALS = Array.from({ length: ANIMAL_COUNT }, (_, index) => animal(index + 1));

/** What a list must contain. Animals added during a run have higher ids and never reach a list of at most 100. */
export function list(limit, status) {
  return ANIMALS.filter((one) => status == null || one.status === status).slice(0, limit);
}
