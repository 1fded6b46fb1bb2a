import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateApiKey } from '../access/api-key.js';
import type { KeyStore } from '../access/key-store.js';
import type { Int64 } from '../pets/int64.js';
import type { NewPet } from '../pets/pet.js';
import type { PetSource } from '../pets/pet-source.js';

const DEVELOPMENT_PLANS = ['free', 'pro', 'business'] as const;

/** The development keys by their plan, as they stand in `dev-keys.json`. */
export type DevelopmentKeys = Readonly<Record<(typeof DEVELOPMENT_PLANS)[number], string>>;

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

export interface FirstStartOptions {
  readonly directory: string;
  readonly keys: KeyStore;
  readonly source: PetSource;
  readonly sampleAnimals: boolean;
}

/**
 * Fills an empty embedded store: sample animals and a development key of each published plan, kept in `dev-keys.json`.
 * @returns the keys; undefined when the store is not empty
 */
export async function fillEmptyStore({
  directory,
  keys,
  source,
  sampleAnimals,
}: FirstStartOptions): Promise<DevelopmentKeys | undefined> {
  const call = { requestId: 'first-start', startedAt: performance.now(), signal: new AbortController().signal };
  const [animals, existing] = await Promise.all([source.list({ limit: 1 }, call), keys.list()]);
  if (animals.length > 0 || existing.length > 0) return undefined;

  const secrets = Object.fromEntries(
    DEVELOPMENT_PLANS.map((plan) => [plan, generateApiKey()]),
  ) as unknown as DevelopmentKeys;
  // Written before the keys exist: a start that is cut short leaves an empty store, and the next one begins again.
  await writeFile(join(directory, 'dev-keys.json'), `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
  if (sampleAnimals) for (const animal of SAMPLE_ANIMALS) await source.add(animal, call);
  for (const plan of DEVELOPMENT_PLANS) await keys.create({ plan, label: 'development' }, secrets[plan]);
  return secrets;
}
