import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { generateApiKey } from '../../src/access/api-key.js';
import { createAuthenticator, type Authenticator } from '../../src/store/store-access.js';
import { createFakeKeys, type FakeKeys } from './fake-keys.js';
import { fakeClocks } from '../support/fake-clocks.js';

let keys: FakeKeys;
let authenticator: Authenticator;

beforeEach(() => {
  // Other clocks belong to servers that earlier files have started.
  fakeClocks(Date.UTC(2026, 0, 1));
  keys = createFakeKeys();
  authenticator = createAuthenticator(keys);
});
afterEach(() => {
  vi.useRealTimers();
});

async function keyIdOf(key: string): Promise<string | undefined> {
  return (await authenticator.authenticate(key))?.id;
}

describe('a valid key', () => {
  it('is looked up by its digest and returns its caller, with plan and windows and without the secret', async () => {
    const key = keys.add({ id: 'key_7', plan: 'enterprise', limits: { perMinute: 5, perDay: 70 } });
    const caller = await authenticator.authenticate(key);
    expect(caller).toEqual({
      id: 'key_7',
      plan: 'enterprise',
      readOnly: false,
      windows: [
        { name: 'minute', seconds: 60, limit: 5 },
        { name: 'day', seconds: 86_400, limit: 70 },
      ],
      unbannedAt: 0,
    });
    expect(keys.asked).toEqual([expect.stringMatching(/^[\w-]{43}$/)]);
    expect(keys.asked[0]).not.toContain(key);
  });

  it('is then returned from memory, without a promise', async () => {
    const key = keys.add();
    await authenticator.authenticate(key);
    for (let i = 0; i < 100; i++) {
      const caller = authenticator.authenticate(key);
      expect(caller).not.toBeInstanceOf(Promise);
      expect(caller).toMatchObject({ id: 'key_0' });
    }
    expect(keys.asked).toHaveLength(1);
  });

  it('is looked up every ten minutes while no key changes, and no request waits', async () => {
    const key = keys.add();
    await authenticator.authenticate(key);
    await vi.advanceTimersByTimeAsync(1_000);
    await authenticator.authenticate(key);
    keys.asked.length = 0;
    for (let seconds = 0; seconds < 1_150; seconds++) {
      await vi.advanceTimersByTimeAsync(1_000);
      expect(authenticator.authenticate(key)).not.toBeInstanceOf(Promise);
    }
    expect(keys.asked).toHaveLength(1);
  });

  it('is looked up again after a change of another key', async () => {
    const [key, other] = [keys.add(), keys.add()];
    for (let seconds = 0; seconds < 10; seconds++) {
      await authenticator.authenticate(key);
      await vi.advanceTimersByTimeAsync(1_000);
    }
    keys.asked.length = 0;
    keys.change(other, { plan: 'pro' });
    for (let seconds = 0; seconds < 5; seconds++) {
      await authenticator.authenticate(key);
      await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(keys.asked).toHaveLength(1);
  });

  it('is refused in use after its revocation, although a replica had not seen it at first', async () => {
    const key = keys.add();
    keys.lag = true;
    keys.change(key, { revokedAt: new Date() });
    for (let seconds = 0; seconds < 3; seconds++) {
      expect(await authenticator.authenticate(key)).toMatchObject({ id: 'key_0' });
      await vi.advanceTimersByTimeAsync(1_000);
    }
    keys.lag = false;
    for (let seconds = 0; seconds < 5; seconds++) {
      await authenticator.authenticate(key);
      await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(await keyIdOf(key)).toBeUndefined();
  });

  it('is refreshed in the background if the store does not say the version of the keys', async () => {
    keys.hidesVersion = true;
    const key = keys.add();
    await authenticator.authenticate(key);
    for (let seconds = 0; seconds < 60; seconds++) {
      await vi.advanceTimersByTimeAsync(1_000);
      expect(authenticator.authenticate(key)).not.toBeInstanceOf(Promise);
    }
    expect(keys.asked.length).toBeGreaterThanOrEqual(12);
    expect(keys.asked.length).toBeLessThanOrEqual(61);
  });

  it('is looked up again before use if it was unused for five seconds', async () => {
    const key = keys.add();
    await authenticator.authenticate(key);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(authenticator.authenticate(key)).toBeInstanceOf(Promise);
    await vi.advanceTimersByTimeAsync(0);
    expect(keys.asked).toHaveLength(2);
  });

  it('gets a changed plan with its next lookup', async () => {
    const key = keys.add();
    await authenticator.authenticate(key);
    keys.change(key, { plan: 'pro', limits: { perMinute: 300, perDay: 10_000 } });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await authenticator.authenticate(key)).toMatchObject({ plan: 'pro', windows: [{ limit: 300 }, {}] });
  });

  it('is looked up once for concurrent requests', async () => {
    keys.hidesVersion = true;
    const key = keys.add();
    keys.slow = true;
    const callers = Promise.all(Array.from({ length: 50 }, async () => authenticator.authenticate(key)));
    expect(keys.asked).toHaveLength(1);
    keys.answerAll();
    expect((await callers).map((caller) => caller?.id)).toEqual(Array.from({ length: 50 }, () => 'key_0'));
    keys.slow = false;
    await vi.advanceTimersByTimeAsync(3_000);
    for (let i = 0; i < 50; i++) void authenticator.authenticate(key);
    expect(keys.asked).toHaveLength(2);
  });

  it('is evicted when newer keys fill the cache', async () => {
    authenticator = createAuthenticator(keys, { capacity: 2 });
    const [a, b, c] = [keys.add(), keys.add(), keys.add()];
    for (const key of [a, b, c]) await authenticator.authenticate(key);
    expect(authenticator.authenticate(c)).not.toBeInstanceOf(Promise);
    expect(authenticator.authenticate(b)).not.toBeInstanceOf(Promise);
    expect(authenticator.authenticate(a)).toBeInstanceOf(Promise);
  });
});

describe('a key that becomes invalid', () => {
  it('is refused within five seconds of its revocation if it is in use', async () => {
    const key = keys.add();
    await authenticator.authenticate(key);
    await vi.advanceTimersByTimeAsync(3_300);
    await authenticator.authenticate(key);
    keys.change(key, { revokedAt: new Date() });
    const revokedAt = Date.now();
    while ((await authenticator.authenticate(key)) !== undefined) await vi.advanceTimersByTimeAsync(100);
    expect(Date.now() - revokedAt).toBeLessThanOrEqual(5_000);
  });

  it('is refused at most five seconds after the last lookup before its revocation', async () => {
    const key = keys.add();
    await authenticator.authenticate(key);
    keys.change(key, { revokedAt: new Date() });
    await vi.advanceTimersByTimeAsync(1_999);
    expect(await keyIdOf(key)).toBe('key_0');
    await vi.advanceTimersByTimeAsync(3_001);
    expect(await keyIdOf(key)).toBeUndefined();
  });

  it('is refused within five seconds even if a lookup from before the revocation returns late', async () => {
    const key = keys.add();
    await authenticator.authenticate(key);
    await vi.advanceTimersByTimeAsync(2_000);
    keys.slow = true;
    void authenticator.authenticate(key);
    keys.change(key, { revokedAt: new Date() });
    keys.slow = false;
    await vi.advanceTimersByTimeAsync(2_500);
    keys.answerAll();
    await vi.advanceTimersByTimeAsync(2_500);
    expect(await keyIdOf(key)).toBeUndefined();
  });

  it('is refused the moment it expires, without a lookup', async () => {
    const key = keys.add({ expiresAt: new Date(Date.now() + 900) });
    await authenticator.authenticate(key);
    await vi.advanceTimersByTimeAsync(899);
    expect(authenticator.authenticate(key)).toMatchObject({ id: 'key_0' });
    await vi.advanceTimersByTimeAsync(1);
    expect(authenticator.authenticate(key)).toBeUndefined();
    expect(keys.asked).toHaveLength(1);
  });

  it('is refused from the start if it had expired or was revoked before', async () => {
    expect(await keyIdOf(keys.add({ expiresAt: new Date(Date.now()) }))).toBeUndefined();
    expect(await keyIdOf(keys.add({ revokedAt: new Date(Date.now() - 1) }))).toBeUndefined();
    expect(await keyIdOf(keys.add({ expiresAt: new Date(Date.now() + 1) }))).toBe('key_2');
  });
});

describe('an unknown key', () => {
  it('is cached as unknown for five seconds', async () => {
    const key = generateApiKey();
    expect(await keyIdOf(key)).toBeUndefined();
    await vi.advanceTimersByTimeAsync(4_999);
    for (let i = 0; i < 100; i++) expect(authenticator.authenticate(key)).toBeUndefined();
    expect(keys.asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(await keyIdOf(key)).toBeUndefined();
    expect(keys.asked).toHaveLength(2);
  });

  it('becomes valid within five seconds of its creation', async () => {
    const key = generateApiKey();
    await authenticator.authenticate(key);
    keys.change(key, {});
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await keyIdOf(key)).toBe('key_new');
    expect(authenticator.authenticate(key)).toMatchObject({ id: 'key_new' });
  });

  it('evicts other unknown keys from the cache, but no valid one', async () => {
    authenticator = createAuthenticator(keys, { capacity: 2, unknownCapacity: 3 });
    const valid = keys.add();
    await authenticator.authenticate(valid);
    const guesses = Array.from({ length: 10 }, generateApiKey);
    for (const guess of guesses) await authenticator.authenticate(guess);
    expect(keys.asked).toHaveLength(11);
    for (const guess of guesses.slice(-3)) expect(authenticator.authenticate(guess)).toBeUndefined();
    expect(authenticator.authenticate(valid)).toMatchObject({ id: 'key_0' });
    expect(keys.asked).toHaveLength(11);
    expect(await keyIdOf(guesses[0] as string)).toBeUndefined();
    expect(keys.asked).toHaveLength(12);
  });

  it('is never looked up if its checksum is wrong', () => {
    const key = keys.add();
    const impossible = ['', 'x', 'pets_', `pets_${'0'.repeat(38)}`, key.slice(0, -1), `${key}x`, ` ${key}`, `${key}\n`];
    for (const text of impossible) expect(authenticator.authenticate(text)).toBeUndefined();
    expect(keys.asked).toEqual([]);
  });
});
