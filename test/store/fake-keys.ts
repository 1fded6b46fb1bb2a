import { digestApiKey, generateApiKey } from '../../src/access/api-key.js';
import type { KeyRecord, KeyStore } from '../../src/store/postgres-key-store.js';

/** A key store in memory that records lookups, can delay its results and can fail. */
export interface FakeKeys extends Pick<KeyStore, 'findByDigest' | 'findVersion'> {
  /** The digests looked up so far. */
  readonly asked: string[];
  /** If true, lookups do not see changes, as on a replica. The version is that of another server. */
  lag: boolean;
  /** How often the version was asked for. */
  versionsAsked: number;
  /** If true, the store does not say the version of the keys. */
  hidesVersion: boolean;
  /** If set, every lookup fails with it. */
  failure: Error | undefined;
  /** If true, lookups wait for `answerAll`. */
  slow: boolean;
  add(changes?: Partial<KeyRecord>): string;
  change(key: string, changes: Partial<KeyRecord>): void;
  answerAll(): void;
}

export function createFakeKeys(): FakeKeys {
  const records = new Map<string, KeyRecord>();
  /** Each before its last change. */
  const before = new Map<string, KeyRecord>();
  const waiting: (() => void)[] = [];
  let version = 0;
  const fake: FakeKeys = {
    asked: [],
    lag: false,
    versionsAsked: 0,
    hidesVersion: false,
    failure: undefined,
    slow: false,
    add(changes) {
      const key = generateApiKey();
      records.set(digestApiKey(key), { ...NEW, id: `key_${records.size}`, ...changes });
      return key;
    },
    change(key, changes) {
      const digest = digestApiKey(key);
      const old = records.get(digest);
      if (old) {
        version += 1;
        before.set(digest, old);
      }
      records.set(digest, { ...(records.get(digest) ?? NEW), ...changes });
    },
    async findByDigest(digest) {
      fake.asked.push(digest);
      const { failure } = fake;
      const found = fake.lag ? (before.get(digest) ?? records.get(digest)) : records.get(digest);
      const known = fake.lag ? 'old' : String(version);
      const record = found && { ...found, version: fake.hidesVersion ? '' : known };
      if (fake.slow) await new Promise<void>((answer) => waiting.push(answer));
      if (failure) throw failure;
      return record;
    },
    async findVersion() {
      fake.versionsAsked += 1;
      const { failure } = fake;
      const known = fake.hidesVersion ? undefined : String(version);
      if (fake.slow) await new Promise<void>((answer) => waiting.push(answer));
      if (failure) throw failure;
      return known;
    },
    answerAll() {
      for (const answer of waiting.splice(0)) answer();
    },
  };
  return fake;
}

const NEW: KeyRecord = {
  id: 'key_new',
  plan: 'free',
  label: null,
  limits: { perMinute: 60, perDay: 1_000 },
  readOnly: false,
  createdAt: new Date(0),
  expiresAt: null,
  revokedAt: null,
  unbannedAt: null,
  previousEndsAt: null,
};
