import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { digestApiKey, generateApiKey } from '../access/api-key.js';
import type { KeyStore } from '../access/key-store.js';
import type { Int64 } from '../pets/int64.js';
import type { NewPet } from '../pets/pet.js';
import { createCall, type PetSource } from '../pets/pet-source.js';

const DEVELOPMENT_PLANS = ['free', 'pro', 'business'] as const;

/** The development keys by their plan, as they stand in `dev-keys.json`. */
export type DevelopmentKeys = Readonly<Record<(typeof DEVELOPMENT_PLANS)[number], string>>;

const KEYS_FILE = 'dev-keys.json';

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

/** What an empty store has been given. */
export interface FirstStart {
  readonly keys: DevelopmentKeys;
  /** Where the keys are kept. */
  readonly keysFile: string;
  readonly hasSampleAnimals: boolean;
}

/**
 * Fills an empty embedded store: sample animals and a development key of each published plan, kept in `dev-keys.json`.
 * A start that was cut short in the middle of it is taken up where it ended.
 * @returns what it was given; undefined when the store was filled before, or is not empty
 */
export async function fillEmptyStore({
  directory,
  keys,
  source,
  sampleAnimals,
}: FirstStartOptions): Promise<FirstStart | undefined> {
  const call = createCall('first-start');
  const path = join(directory, KEYS_FILE);
  const unfinished = `${path}.new`;
  const [animals, existing, begun] = await Promise.all([
    source.list({ limit: 100 }, call),
    keys.list(),
    readKeys(unfinished),
  ]);
  if (!begun && (animals.length > 0 || existing.length > 0)) return undefined;

  const secrets = begun ?? generateKeys();
  if (!begun) await writeFile(unfinished, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
  if (sampleAnimals) for (const animal of SAMPLE_ANIMALS.slice(animals.length)) await source.add(animal, call);
  for (const plan of DEVELOPMENT_PLANS) {
    const secret = secrets[plan];
    if (!(await keys.findByDigest(digestApiKey(secret)))) await keys.create({ plan, label: 'development' }, secret);
  }
  await rename(unfinished, path);
  return { keys: secrets, keysFile: path, hasSampleAnimals: sampleAnimals };
}

/** The development key of the smallest plan, which can do the least; undefined when the store has none. */
export async function findDevelopmentKey(directory: string): Promise<string | undefined> {
  return (await readKeys(join(directory, KEYS_FILE)))?.free;
}

function generateKeys(): DevelopmentKeys {
  return Object.fromEntries(DEVELOPMENT_PLANS.map((plan) => [plan, generateApiKey()])) as unknown as DevelopmentKeys;
}

/** Reads the keys of a file; undefined when there is none, or only half of it, which is before anything was added. */
async function readKeys(path: string): Promise<DevelopmentKeys | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as DevelopmentKeys;
  } catch {
    return undefined;
  }
}
