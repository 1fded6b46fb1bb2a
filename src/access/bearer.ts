/** The content of an `Authorization` header. */
export type Bearer = { readonly kind: 'none' } | { readonly kind: 'key'; readonly key: string };

export const NO_BEARER: Bearer = { kind: 'none' };
/** RFC 6750, section 2.1, with the scheme in any case (RFC 9110, section 11.1). */
const BEARER = /^bearer +(\S.*)$/i;

/** Parses an `Authorization` header. A header with a scheme other than Bearer contains no key. */
export function parseBearer(authorization: string | undefined): Bearer {
  const match = authorization === undefined ? null : BEARER.exec(authorization);
  return match ? { kind: 'key', key: (match[1] as string).trimEnd() } : NO_BEARER;
}
