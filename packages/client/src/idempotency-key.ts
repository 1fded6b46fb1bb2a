/** Creates a random key of 128 bits. Unlike `crypto.randomUUID`, this also works on pages without TLS. */
export function createIdempotencyKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join('-');
}
