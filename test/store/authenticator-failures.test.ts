import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createAuthenticator, type Authenticator } from '../../src/store/store-access.js';
import { StoreError } from '../../src/errors.js';
import { createFakeKeys, type FakeKeys } from './fake-keys.js';
import { fakeClocks } from '../support/fake-clocks.js';

const AWAY = new StoreError('unavailable', 'away');

describe('while the database is unavailable', () => {
  let keys: FakeKeys;
  let authenticator: Authenticator;
  let key: string;

  beforeEach(async () => {
    fakeClocks(Date.UTC(2026, 0, 1));
    keys = createFakeKeys();
    authenticator = createAuthenticator(keys);
    key = keys.add();
    await authenticator.authenticate(key);
    keys.failure = AWAY;
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('a key seen in the last five seconds stays valid', async () => {
    for (const step of [1_000, 1_000, 1_000, 1_000, 999]) {
      await vi.advanceTimersByTimeAsync(step);
      expect(authenticator.authenticate(key)).toMatchObject({ id: 'key_0' });
    }
    expect(keys.versionsAsked).toBeGreaterThan(1);
  });

  it('a key last seen five seconds ago cannot be looked up', async () => {
    await vi.advanceTimersByTimeAsync(5_000);
    await expect(authenticator.authenticate(key)).rejects.toBe(AWAY);
  });

  it('an unseen key cannot be looked up, and is not cached as unknown', async () => {
    const other = keys.add();
    await expect(authenticator.authenticate(other)).rejects.toBe(AWAY);
    keys.failure = undefined;
    expect(await authenticator.authenticate(other)).toMatchObject({ id: 'key_1' });
  });

  it('all requests that wait for one lookup get its failure, and the next request starts a new lookup', async () => {
    const other = keys.add();
    keys.slow = true;
    const waiting = Promise.allSettled(Array.from({ length: 5 }, async () => authenticator.authenticate(other)));
    keys.answerAll();
    expect((await waiting).map(({ status }) => status)).toEqual(Array.from({ length: 5 }, () => 'rejected'));
    keys.slow = false;
    await expect(authenticator.authenticate(other)).rejects.toBe(AWAY);
    expect(keys.asked).toHaveLength(3);
  });

  it('a hanging refresh delays no request until the key is too old', async () => {
    keys.failure = undefined;
    keys.slow = true;
    await vi.advanceTimersByTimeAsync(2_500);
    expect(authenticator.authenticate(key)).toMatchObject({ id: 'key_0' });
    await vi.advanceTimersByTimeAsync(2_499);
    expect(authenticator.authenticate(key)).toMatchObject({ id: 'key_0' });
    await vi.advanceTimersByTimeAsync(1);
    const waiting = authenticator.authenticate(key);
    expect(waiting).toBeInstanceOf(Promise);
    keys.answerAll();
    expect(await waiting).toMatchObject({ id: 'key_0' });
  });

  it('an expired key stays expired', async () => {
    keys.failure = undefined;
    const short = keys.add({ expiresAt: new Date(Date.now() + 1_000) });
    await authenticator.authenticate(short);
    keys.failure = AWAY;
    await vi.advanceTimersByTimeAsync(1_000);
    expect(authenticator.authenticate(short)).toBeUndefined();
  });

  it('keys are valid again when it is back', async () => {
    await vi.advanceTimersByTimeAsync(60_000);
    await expect(authenticator.authenticate(key)).rejects.toBe(AWAY);
    keys.failure = undefined;
    expect(await authenticator.authenticate(key)).toMatchObject({ id: 'key_0' });
    expect(authenticator.authenticate(key)).not.toBeInstanceOf(Promise);
  });
});
