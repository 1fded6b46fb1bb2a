import { createHash } from 'node:crypto';
import type { Connection, Database } from './database.js';

/** The tables that are exported, in this order, and how their rows are sorted, the same way in every database. */
const TABLES: Readonly<Record<string, string>> = {
  pets: 'id',
  api_keys: 'id COLLATE "C"',
  key_log: 'id',
  usage: 'key_id COLLATE "C", starts_at, hours, client COLLATE "C", operation COLLATE "C", deprecated COLLATE "C"',
  idempotent_adds: 'caller_id COLLATE "C", key_digest',
};
const FORMAT = 'animal-store';
const VERSION = 1;
const BATCH_ROWS = 2_000;

/** The first line of an export. The rows follow, one JSON object in each line, then a line with the checksum. */
interface Header {
  readonly format: string;
  readonly version: number;
  /** The last id that was given to an animal, as text. Null if there was none. */
  readonly lastPetId: string | null;
  readonly tables: readonly { readonly name: string; readonly columns: readonly string[]; readonly rows: number }[];
}

type Table = Header['tables'][number];

/** How many rows of each table were exported or imported. */
export type Transferred = readonly Pick<Table, 'name' | 'rows'>[];

/** How many rows of which tables were moved, in one line. */
export function summarize(tables: Transferred): string {
  return tables.map(({ name, rows }) => `${name}: ${rows}`).join(', ');
}

/** Rows look the same in every session. A plan for many rows may read whole tables, and the file may be a slow pipe. */
const SETTINGS = `SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL TimeZone = 'UTC'; SET LOCAL bytea_output = 'hex';
  SET LOCAL standard_conforming_strings = on; SET LOCAL enable_seqscan = on`;

/**
 * Exports a store as it is at one moment.
 * @param write - takes text that ends with a line
 */
export async function exportStore(database: Database, write: (text: string) => Promise<void>): Promise<Transferred> {
  return database.transaction(async (session) => {
    await session.execute(`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; ${SETTINGS}`);
    const header = await describe(session);
    const checksum = createHash('sha256');
    for await (const text of readStore(session, header)) {
      checksum.update(text);
      await write(text);
    }
    await write(`${JSON.stringify({ sha256: checksum.digest('hex') })}\n`);
    return header.tables;
  });
}

/**
 * Imports an export into an empty store, all of it or nothing. At the end, what the store then holds must have the
 * checksum of the export.
 * @throws Error with a message for the operator, if the store is not empty, or the export incomplete, damaged or newer
 */
export async function importStore(database: Database, chunks: AsyncIterable<string>): Promise<Transferred> {
  return database.transaction(async (session) => {
    await session.execute(SETTINGS);
    const own = await describe(session);
    await session.execute(`LOCK TABLE ${own.tables.map(({ name }) => name).join()} IN SHARE ROW EXCLUSIVE MODE`);
    const full = own.tables.filter(({ rows }) => rows > 0);
    if (full.length > 0) {
      throw new Error(`the store is not empty (${summarize(full)}): name a new one with DATABASE_URL or DATA_DIR`);
    }

    const lines = toLines(chunks);
    const header = parseHeader((await lines.next()).value ?? '', own);
    for (const { name, columns, rows: count } of header.tables) {
      for (let left = count; left > 0;) {
        const rows: string[] = [];
        while (rows.length < Math.min(BATCH_ROWS, left)) {
          const line = await lines.next();
          if (line.done) throw new Error('the export is incomplete: rows are missing at its end');
          rows.push(line.value);
        }
        await session.execute(
          `INSERT INTO ${name} (${columns.join()}) SELECT ${columns.join()}
           FROM json_populate_recordset(NULL::${name}, '${`[${rows.join()}]`.replaceAll("'", "''")}')`,
        );
        left -= rows.length;
      }
    }
    const last = await lines.next();
    if (last.done) throw new Error('the export is incomplete: its last line is missing');
    await continueIds(session, header.lastPetId);
    const checksum = createHash('sha256');
    for await (const text of readStore(session, header)) checksum.update(text);
    if (last.value !== JSON.stringify({ sha256: checksum.digest('hex') }))
      throw new Error('the export is damaged: its checksum is wrong');
    return header.tables;
  });
}

/**
 * Parses the first line of an export. Columns that it lacks get their defaults.
 * @param own - describes the store
 */
function parseHeader(line: string, own: Header): Header {
  let header: Partial<Header> | undefined;
  try {
    header = JSON.parse(line.replace(/^\uFEFF/, '')) as Partial<Header>;
  } catch {
    // Not JSON.
  }
  const { format, version, tables } = header ?? {};
  if (format !== FORMAT || typeof version !== 'number') throw new Error('this is no export of an animal store');
  if (version > VERSION) throw newer(`its version is ${version}`);
  if (!Array.isArray(tables)) throw new Error('the export is damaged: its first line names no tables');
  for (const { name, columns } of tables as Header['tables']) {
    const known = own.tables.find((table) => table.name === name)?.columns;
    const unknown = columns.filter((column) => !known?.includes(column));
    if (!known || unknown.length > 0) throw newer(`it has ${unknown.join()} in ${name}`);
  }
  return header as Header;
}

function newer(what: string): Error {
  return new Error(`the export is of a newer version of the program: ${what}`);
}

/** Describes the tables of a store. A store of an older version may lack some. */
async function describe(session: Connection): Promise<Header> {
  const tables: Table[] = [];
  for (const name of Object.keys(TABLES)) {
    const { rows: columns } = await session.execute(
      `SELECT attname::text AS name FROM pg_attribute
       WHERE attrelid = to_regclass('${name}') AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
    );
    if (columns.length === 0) continue;
    const { rows } = await session.execute(`SELECT count(*)::int AS count FROM ${name}`);
    tables.push({ name, columns: columns.map((column) => String(column.name)), rows: Number(rows[0]?.count) });
  }
  // Null until the sequence has given a value.
  const { rows: ids } = await session.execute(
    `SELECT pg_sequence_last_value(pg_get_serial_sequence('pets', 'id')::regclass)::text AS last`,
  );
  const lastPetId = (ids[0]?.last as string | null | undefined) ?? null;
  return { format: FORMAT, version: VERSION, lastPetId, tables };
}

/**
 * Reads the header and all rows, as lines of JSON, in the order of the header. PostgreSQL writes the rows, so identifiers
 * are exact.
 */
async function* readStore(session: Connection, header: Header): AsyncGenerator<string> {
  yield `${JSON.stringify(header)}\n`;
  for (const { name, columns } of header.tables) {
    await session.execute(
      `DECLARE lines NO SCROLL CURSOR FOR
       SELECT row_to_json(line)::text AS line FROM (SELECT ${columns.join()} FROM ${name} ORDER BY ${TABLES[name]}) AS line`,
    );
    for (;;) {
      const { rows } = await session.execute(`FETCH ${BATCH_ROWS} FROM lines`);
      if (rows.length === 0) break;
      yield rows.map(({ line }) => `${String(line)}\n`).join('');
    }
    await session.execute('CLOSE lines');
  }
}

/** Lets the next ids follow the last ones: of animals, the last one that the export states, even if that animal is gone. */
async function continueIds(session: Connection, lastPetId: string | null): Promise<void> {
  if (lastPetId !== null) {
    if (!/^[1-9]\d{0,18}$/.test(lastPetId)) throw new Error('the export is damaged: lastPetId is no id');
    await session.execute(`SELECT setval(pg_get_serial_sequence('pets', 'id'), ${lastPetId})`);
  }
  await session.execute(
    `SELECT setval(pg_get_serial_sequence('key_log', 'id'), max(id)) FROM key_log HAVING max(id) IS NOT NULL`,
  );
}

/** Splits text at `\n` alone. Unlike readline, this keeps U+2028 and U+2029, which JSON does not escape. */
export async function* toLines(chunks: AsyncIterable<string>): AsyncGenerator<string, undefined> {
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() as string;
    yield* lines;
  }
  // A line without its end is not complete.
  return undefined;
}
