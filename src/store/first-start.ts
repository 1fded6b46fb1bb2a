import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { digestApiKey, generateApiKey } from '../access/api-key.js';
import type { KeyStore } from './postgres-key-store.js';
import type { Int64 } from '../pets/int64.js';
import type { NewPet } from '../pets/pet.js';
import { createCall, type PetSource } from '../pets/pet-source.js';

const PLANS = ['free', 'pro', 'business'] as const;

/** The development keys by plan: the contents of `dev-keys.json`. */
export type DevelopmentKeys = Readonly<Record<(typeof PLANS)[number], string>>;

const KEYS_FILE = 'dev-keys.json';
const UNFINISHED = `${KEYS_FILE}.new`;

const DOGS = '1' as Int64;
const CATS = '2' as Int64;
const OTHERS = '3' as Int64;

const SAMPLE_ANIMALS: readonly NewPet[] = [
  { name: 'Bella', categoryId: DOGS, status: 'available' },
  { name: 'Milo', categoryId: CATS, status: 'available' },
  { name: 'Rex', categoryId: DOGS, status: 'pending' },
  { name: 'Luna', categoryId: CATS, status: 'sold' },
  { name: 'Kiwi', categoryId: OTHERS, status: 'available' },
  { name: 'Žofka', categoryId: CATS, status: 'pending' },
  { name: 'ハチ', categoryId: DOGS, status: 'available' },
  { name: 'Flocke', categoryId: OTHERS },
];

export type FirstStart = NonNullable<Awaited<ReturnType<typeof fillEmptyStore>>>;

/**
 * Fills an empty embedded store with sample animals and development keys, or completes what an interrupted start began.
 * @returns what was added; undefined if the store is not empty
 */
export async function fillEmptyStore(directory: string, keys: KeyStore, source: PetSource, hasSampleAnimals: boolean) {
  const call = createCall('first-start');
  const keysFile = join(directory, KEYS_FILE);
  const unfinished = join(directory, UNFINISHED);
  const animals = await source.list({ limit: 100 }, call);
  const begun = await findDevelopmentKeys(directory, UNFINISHED);
  const secrets = begun ?? { free: generateApiKey(), pro: generateApiKey(), business: generateApiKey() };
  const found = await Promise.all(PLANS.map((plan) => keys.findByDigest(digestApiKey(secrets[plan]))));
  const isOwn = animals.every(({ name }, i) => begun && name === SAMPLE_ANIMALS[i]?.name);
  if (!isOwn || (await keys.count({})) > found.filter(Boolean).length) {
    // The store was filled in another way, such as an import after an interrupted start.
    await rm(unfinished, { force: true });
    return undefined;
  }
  if (!begun) await writeFile(unfinished, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
  if (hasSampleAnimals) for (const animal of SAMPLE_ANIMALS.slice(animals.length)) await source.add(animal, call);
  for (const [i, plan] of PLANS.entries())
    if (!found[i]) await keys.create({ plan, label: 'development' }, 'the first start', secrets[plan]);
  await rename(unfinished, keysFile);
  return { keys: secrets, keysFile, hasSampleAnimals };
}

/** Undefined if the file is missing or incomplete. */
export async function findDevelopmentKeys(directory: string, file = KEYS_FILE): Promise<DevelopmentKeys | undefined> {
  try {
    return JSON.parse(await readFile(join(directory, file), 'utf8')) as DevelopmentKeys;
  } catch {
    return undefined;
  }
}
