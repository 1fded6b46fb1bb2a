/** When the lookup by id (`GET /pets/{petId}`, `Query.pet`) will be removed, according to the interface document. */
export const LOOKUP_SUNSET = new Date('2030-12-05T00:00:00Z');

/**
 * Since when the lookup is deprecated. The interface document 1.0.0 states no date, so this is the day on which this
 * store first published the deprecation.
 */
export const LOOKUP_DEPRECATED_SINCE = new Date('2026-11-20T00:00:00Z');
