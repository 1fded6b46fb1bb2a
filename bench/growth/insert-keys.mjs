import { digestApiKey, generateApiKey, generateKeyId } from '../../dist/access/api-key.js';

const AT_ONCE = 10_000;

/** Makes so many enterprise keys whose limits are never reached, and puts them into the database. */
export async function insertKeys(client, count) {
  const keys = Array.from({ length: count }, () => generateApiKey());
  for (let at = 0; at < count; at += AT_ONCE) {
    const part = keys.slice(at, at + AT_ONCE);
    await client.query(
      `INSERT INTO api_keys (id, digest, plan, per_minute, per_day)
       SELECT id, digest, 'enterprise', 2000000000, 2000000000 FROM unnest($1::text[], $2::bytea[]) AS new (id, digest)`,
      [part.map(() => generateKeyId()), part.map((key) => Buffer.from(digestApiKey(key), 'base64url'))],
    );
  }
  return keys;
}
