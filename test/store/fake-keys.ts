import { digestApiKey, generateApiKey } from '../../src/access/api-key.js';
import type { KeyRecord, KeyStore } from '../../src/store/postgres-key-store.js';

/** A key store in memory that records lookups, can delay its results and can fail. */
export interface FakeKeys extends Pick<KeyStore, 'findByDigest'> {
  /** The digests looked up so far. */
  readonly asked: string[];
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
  const waiting: (() => void)[] = [];
  const fake: FakeKeys = {
    asked: [],
    failure: undefined,
    slow: false,
    add(changes) {
      const key = generateApiKey();
      records.set(digestApiKey(key), { ...NEW, id: `key_${records.size}`, ...changes });
      return key;
    },
    change(key, changes) {
      const digest = digestApiKey(key);
      records.set(digest, { ...(records.get(digest) ?? NEW), ...changes });
    },
    async findByDigest(digest) {
      fake.asked.push(digest);
      const { failure } = fake;
      const record = records.get(digest);
      if (fake.slow) await new Promise<void>((answer) => waiting.push(answer));
      if (failure) throw failure;
      return record;
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
