/**
 * With `GET_FROM_LISTS=true`, the suites run as after the removal of the lookup. Only `service-example`, `package` and
 * `runtimes`, which run what users have, and the slow `free-key` keep the lookups.
 */
export const getFromLists = process.env.GET_FROM_LISTS === 'true';

/** The settings of a server. If clients get animals from lists, it refuses lookups, in a brownout of two days. */
export function lookups(isOff = getFromLists): Record<string, string> {
  return isOff ? { BROWNOUTS: `${new Date().toISOString().slice(0, 10)}T00:00Z/P2D` } : {};
}
