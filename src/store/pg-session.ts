/**
 * Every statement of a request can read an index in the order it needs, at any table size. These settings make
 * PostgreSQL plan that way, and only once per statement. By default it plans a list anew each time, and a plan for a
 * few rows reads the whole table and stays until the table is analysed again. To compile a plan takes longer than to run
 * it. `options` in the URL replace these settings.
 */
const LASTING_PLANS = '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off';

/**
 * What the statements and the parsing of their results depend on, whatever the database or the role has set. Behind a
 * pooler this cannot be set, so statements that grant access return values that depend on none of it.
 */
const SETTINGS =
  '-c DateStyle=ISO -c IntervalStyle=postgres -c TimeZone=UTC -c bytea_output=hex -c extra_float_digits=1 ' +
  '-c array_nulls=on -c standard_conforming_strings=on -c default_transaction_isolation=read\\ committed';

/**
 * Adds what every connection sets to a URL, whose `options` may replace only the settings of plans.
 * @param id - begins the `application_name`, of which PostgreSQL keeps 63 bytes, and tells one session from the others
 */
export function addSettings(text: string, id: string): string {
  const url = new URL(text);
  const name = url.searchParams.get('application_name') ?? 'animal-store-gateway';
  url.searchParams.set('application_name', `${id} ${name}`);
  url.searchParams.set('options', [LASTING_PLANS, url.searchParams.get('options'), SETTINGS].join(' '));
  return url.href;
}
