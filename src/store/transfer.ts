import { createHash } from 'node:crypto';
import type { Database, Execute } from './database.js';

/** The tables, in this order, and how their rows are sorted, the same way in every database. */
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
/** Characters, more than a row has. */
const MAX_LINE = 16 * 1_024 * 1_024;

interface Table {
  readonly name: string;
  readonly columns: readonly string[];
  readonly rows: number;
}

/** The first line of an export. The rows follow, one JSON object in each line, then a line with the checksum. */
type Header = Awaited<ReturnType<typeof describe>>;

/** Called from time to time with the number of rows transferred. */
export type OnProgress = (done: number, all: number) => void;

export function summarize(tables: readonly Table[]): string {
  return tables.map(({ name, rows }) => `${name}: ${rows}`).join(', ');
}

/** Rows look the same in every session. A plan for many rows may read whole tables, and the file may be a slow pipe. */
const SETTINGS = `SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL TimeZone = 'UTC'; SET LOCAL bytea_output = 'hex';
  SET LOCAL standard_conforming_strings = on; SET LOCAL enable_seqscan = on`;

/**
 * Exports a store as it is at one moment. PostgreSQL writes the rows, so identifiers are exact.
 * @param write - takes text that ends with a line
 */
export async function exportStore(
  database: Database,
  write: (text: string) => Promise<void>,
  onProgress: OnProgress,
): Promise<readonly Table[]> {
  return database.transaction(async (execute) => {
    await execute(`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; ${SETTINGS}`);
    const header = await describe(execute);
    const { tables } = header;
    if (tables.length === 0) throw new Error('the store has no tables: run npm run migrate');
    const checksum = createHash('sha256');
    const add = async (lines: readonly string[]): Promise<void> => {
      const text = lines.map((line) => `${line}\n`).join('');
      checksum.update(text);
      await write(text);
    };
    await add([JSON.stringify(header)]);
    const all = countRows(tables);
    let done = 0;
    for (const { name, columns } of tables) {
      await execute(
        `DECLARE lines NO SCROLL CURSOR FOR SELECT row_to_json(line)::text AS line
         FROM (SELECT ${columns.join()} FROM ${name} ORDER BY ${TABLES[name]}) AS line`,
      );
      for (;;) {
        const { rows } = await execute(`FETCH ${BATCH_ROWS} FROM lines`);
        if (rows.length === 0) break;
        await add(rows.map(({ line }) => String(line)));
        onProgress((done += rows.length), all);
      }
      await execute('CLOSE lines');
    }
    await write(`${JSON.stringify({ sha256: checksum.digest('hex') })}\n`);
    return tables;
  });
}

/**
 * Imports an export into an empty store, all of it or nothing.
 * @throws Error for the operator, if the store is not empty, or the export incomplete, damaged or newer
 */
export async function importStore(
  database: Database,
  chunks: AsyncIterable<string>,
  onProgress: OnProgress,
): Promise<readonly Table[]> {
  return database.transaction(async (execute) => {
    await execute(SETTINGS);
    await execute(`LOCK TABLE ${Object.keys(TABLES).join()} IN SHARE ROW EXCLUSIVE MODE`);
    const own = (await describe(execute)).tables;
    const full = own.filter(({ rows }) => rows > 0);
    if (full.length > 0)
      throw new Error(`the store is not empty (${summarize(full)}): name a new one with DATABASE_URL or DATA_DIR`);

    const lines = toLines(chunks);
    const checksum = createHash('sha256');
    const readLine = async (): Promise<string> => {
      const { value, done } = await lines.next();
      if (done) throw new Error('the export is incomplete: lines are missing at its end');
      return value;
    };
    const first = (await readLine()).replace(/^\uFEFF/, '');
    checksum.update(`${first}\n`);
    const { tables, lastPetId } = parseHeader(first, own);
    const all = countRows(tables);
    let done = 0;
    for (const { name, columns, rows: count } of tables) {
      for (let left = count; left > 0; left -= BATCH_ROWS) {
        const rows: string[] = [];
        while (rows.length < Math.min(BATCH_ROWS, left)) rows.push(await readLine());
        for (const row of rows) checksum.update(`${row}\n`);
        await execute(
          `INSERT INTO ${name} (${columns.join()}) SELECT ${columns.join()}
           FROM json_populate_recordset(NULL::${name}, '${`[${rows.join()}]`.replaceAll("'", "''")}')`,
        );
        onProgress((done += rows.length), all);
      }
    }
    if ((await readLine()) !== JSON.stringify({ sha256: checksum.digest('hex') }))
      throw new Error('the export is damaged: its checksum is wrong');
    const end = await lines.next();
    if (!end.done || end.value !== '') throw new Error('the export is damaged: more follows its checksum');
    // The next ids follow the last ones, even if that animal is gone.
    if (lastPetId !== null) await execute(`SELECT setval('pets_id_seq', ${BigInt(lastPetId)})`);
    await execute(`SELECT setval('key_log_id_seq', max(id)) FROM key_log HAVING max(id) IS NOT NULL`);
    return tables;
  });
}

function countRows(tables: readonly Table[]): number {
  return tables.reduce((sum, { rows }) => sum + rows, 0);
}

/** Parses the first line of an export, for a store that has `own` tables. Columns that it lacks get their defaults. */
function parseHeader(line: string, own: readonly Table[]): Header {
  if (!line.startsWith(`{"format":"${FORMAT}",`)) throw new Error('this is no export of an animal store');
  try {
    const header = JSON.parse(line) as Header;
    if (header.version > VERSION) throw newer(`its version is ${header.version}`);
    for (const { name, columns } of header.tables) {
      const known = own.find((table) => table.name === name)?.columns;
      const unknown = columns.filter((column) => !known?.includes(column));
      if (!known || unknown.length > 0) throw newer(`it has ${unknown.join()} in ${name}`);
    }
    return header;
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error;
    throw new Error('the export is damaged: its first line cannot be read');
  }
}

function newer(what: string): Error {
  return new Error(`the export is of a newer version of the program: ${what}`);
}

/** Describes the tables of a store. A store of an older version may lack some. */
async function describe(execute: Execute) {
  const tables: Table[] = [];
  for (const name of Object.keys(TABLES)) {
    const { rows: columns } = await execute(
      `SELECT attname::text AS name FROM pg_attribute
       WHERE attrelid = to_regclass('${name}') AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
    );
    if (columns.length === 0) continue;
    const { rows } = await execute(`SELECT count(*)::int AS count FROM ${name}`);
    tables.push({ name, columns: columns.map((column) => String(column.name)), rows: Number(rows[0]?.count) });
  }
  return { format: FORMAT, version: VERSION, lastPetId: await findLastPetId(execute), tables };
}

/**
 * Finds the id before the next one, as text. Null if the next one is the first. Without SELECT, which not every role has,
 * it is the last one that the sequence gave.
 */
async function findLastPetId(execute: Execute): Promise<string | null> {
  const { rows: privileges } = await execute(
    `SELECT has_sequence_privilege(id, 'SELECT') AS exact, has_sequence_privilege(id, 'SELECT, USAGE') AS may
     FROM to_regclass('pets_id_seq') AS id`,
  );
  const [{ exact, may } = {}] = privileges;
  if (may === false) throw new Error('the role lacks SELECT on the sequence pets_id_seq');
  if (!may) return null;
  const { rows } = await execute(
    exact
      ? `SELECT (CASE WHEN is_called THEN last_value ELSE nullif(last_value - 1, 0) END)::text AS last FROM pets_id_seq`
      : `SELECT pg_sequence_last_value('pets_id_seq')::text AS last`,
  );
  return rows[0]?.last as string | null;
}

/** Splits text at `\n` alone. Unlike readline, this keeps U+2028 and U+2029, which JSON does not escape. */
export async function* toLines(chunks: AsyncIterable<string>): AsyncGenerator<string, string> {
  let rest = '';
  for await (const chunk of chunks) {
    const lines = chunk.split('\n');
    lines[0] = rest + (lines[0] as string);
    rest = lines.pop() as string;
    if (rest.length > MAX_LINE) throw new Error('this is no export of an animal store: a line is too long');
    yield* lines;
  }
  return rest;
}
