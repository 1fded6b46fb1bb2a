import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { digestApiKey, generateApiKey, generateKeyId, isPlausibleApiKey } from '../../src/access/api-key.js';

describe('an API key', () => {
  it('has a prefix for secret scanners, 32 random characters and a checksum of 6 characters', () => {
    expect(generateApiKey()).toMatch(/^pets_[0-9A-Za-z]{38}$/);
  });

  it('differs each time and uses every character of the alphabet', () => {
    const keys = Array.from({ length: 500 }, generateApiKey);
    expect(new Set(keys).size).toBe(500);
    expect(new Set(keys.map((key) => key.slice(5, 37)).join('')).size).toBe(62);
  });

  it('passes its own checksum', () => {
    for (let i = 0; i < 500; i++) {
      const key = generateApiKey();
      expect(isPlausibleApiKey(key), key).toBe(true);
    }
  });

  it('fails the checksum if any one character changes', () => {
    const key = generateApiKey();
    for (let i = 0; i < key.length; i++) {
      const changed = key.slice(0, i) + (key[i] === 'a' ? 'b' : 'a') + key.slice(i + 1);
      expect(isPlausibleApiKey(changed), `${key} at ${i}`).toBe(false);
    }
  });

  it('fails the checksum if two neighbouring characters are swapped', () => {
    const key = generateApiKey();
    for (let i = 5; i < key.length - 1; i++) {
      if (key[i] === key[i + 1]) continue;
      const swapped = `${key.slice(0, i)}${key[i + 1]}${key[i]}${key.slice(i + 2)}`;
      expect(isPlausibleApiKey(swapped), `${key} at ${i}`).toBe(false);
    }
  });

  it.each([
    () => '',
    (key: string) => key.slice(0, -1),
    (key: string) => `${key}0`,
    (key: string) => ` ${key}`,
    (key: string) => `${key}\n`,
    (key: string) => key.slice(5),
    (key: string) => key.replace('pets_', 'PETS_'),
    (key: string) => key.toLowerCase().replace(/[a-z]$/, '_'),
    (key: string) => `${key}${key}`,
  ])('is rejected in any other form: %s', (change) => {
    expect(isPlausibleApiKey(change(generateApiKey()))).toBe(false);
  });

  it('is stored as its SHA-256 digest', () => {
    expect(digestApiKey('abc')).toBe('ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0');
    const key = generateApiKey();
    expect(digestApiKey(key)).toBe(createHash('sha256').update(key).digest('base64url'));
  });

  it('has a public identifier that reveals nothing about it', () => {
    const ids = Array.from({ length: 500 }, generateKeyId);
    for (const id of ids) expect(id).toMatch(/^key_[0-9A-Za-z]{12}$/);
    expect(new Set(ids).size).toBe(500);
  });
});
