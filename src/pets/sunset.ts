/** The announced end of looking one animal up by its id (`GET /pets/{petId}`, `Query.pet`), from the interface document. */
export const LOOKUP_SUNSET = new Date('2030-12-05T00:00:00Z');

/**
 * Since when the lookup is deprecated: the day of the interface description 1.0.0 is not shown, so it is the day this
 * store first published it.
 */
export const LOOKUP_DEPRECATED_SINCE = new Date('2026-11-20T00:00:00Z');
