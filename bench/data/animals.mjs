/**
 * The animals of every run: the same ten thousand in PostgreSQL and in the upstream of the proxy mode, made from their
 * ids alone, so that every answer can be compared with what it must be.
 */
export const ANIMAL_COUNT = 10_000;

export const NAMES = [
  'Bella',
  'Milo',
  'Luna',
  'Charlie',
  'Daisy',
  'Rocky',
  'Molly',
  'Oscar',
  'Willow',
  'Max',
  'Ginger',
  'Sam',
];

/** Six in ten are available, two pending, one sold, and one has no status at all. */
const STATUSES = [
  'available',
  'available',
  'pending',
  'available',
  'sold',
  'available',
  null,
  'available',
  'pending',
  'available',
];

/** An animal as the database holds it: lower-case status, identifiers as text. */
export function animal(id) {
  return {
    id: String(id),
    name: `${NAMES[id % NAMES.length]} ${id}`,
    categoryId: String(1 + (id % 25)),
    status: STATUSES[id % STATUSES.length],
  };
}

export const ANIMALS = Array.from({ length: ANIMAL_COUNT }, (_, index) => animal(index + 1));

const BY_STATUS = new Map([[undefined, ANIMALS]]);
for (const status of ['available', 'pending', 'sold']) {
  BY_STATUS.set(
    status,
    ANIMALS.filter((one) => one.status === status),
  );
}

/** What a list must answer. Animals that a run adds come after these, and so never into a list of at most a hundred. */
export function list(limit, status) {
  return BY_STATUS.get(status).slice(0, limit);
}

export const STOCK = { count: ANIMAL_COUNT, animal, list };
