/** Creates a random key of 128 bits. Unlike `crypto.randomUUID`, this also works on pages without TLS. */
export function createIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
