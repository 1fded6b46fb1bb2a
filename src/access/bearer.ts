/** RFC 6750, section 2.1, with the scheme in any case (RFC 9110, section 11.1). */
const BEARER = /^bearer +(\S.*)$/i;

/**
 * Parses an `Authorization` header.
 * @returns the key, never empty; undefined if there is none, or if the scheme is not Bearer
 */
export function parseBearer(authorization: string | undefined): string | undefined {
  return authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]?.trimEnd();
}
