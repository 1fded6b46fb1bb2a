import { digestApiKey } from '../access/api-key.js';
import type { OwnKeys } from '../access/own-keys.js';
import { keyRefused } from '../access/refusals.js';
import { StoreError } from '../errors.js';
import type { KeyRecord, KeyStore } from './postgres-key-store.js';

const OVERLAP_MS = 86_400_000;

/** @param onRotation - called after each rotation */
export function createOwnKeys(keys: KeyStore, onRotation: () => void, listUsage: OwnKeys['listUsage']): OwnKeys {
  return {
    async find(secret) {
      const { id, expiresAt: secretEndsAt } = await get(digestApiKey(secret));
      const found = await keys.find(id);
      if (!found) throw keyRefused();
      const { unbannedAt: _, revokedAt: __, ...key } = found;
      return { ...key, secretEndsAt };
    },
    listUsage,
    async rotate(secret) {
      const digest = digestApiKey(secret);
      const record = await get(digest);
      // An UPDATE of no row would fire triggers too, and make every instance look up its keys again.
      const isUnderWay = record.previousEndsAt && record.previousEndsAt > new Date();
      const rotated = isUnderWay ? undefined : await keys.rotate(record, OVERLAP_MS, 'the key itself', digest);
      if (!rotated) {
        const reason = 'A rotation is under way: until the old secret has ended, this key cannot be rotated again';
        throw new StoreError('rotation_under_way', `${reason}. GET /v1/key says when, as previousEndsAt.`);
      }
      onRotation();
      const { id, key, expiresAt, previousEndsAt } = rotated;
      return { id, key, expiresAt, previousEndsAt };
    },
  };

  /** Reads the key again, because that of the session may be seconds old. A replaced secret has its end as `expiresAt`. */
  async function get(digest: string): Promise<KeyRecord> {
    const record = await keys.findByDigest(digest);
    const end = record?.revokedAt ?? record?.expiresAt;
    if (!record || (end && +end <= Date.now())) throw keyRefused();
    return record;
  }
}
