import { mkdir } from 'node:fs/promises';
import type { Transaction } from '@electric-sql/pglite';
import type { Database, Session } from './database.js';

const INT8 = 20;

/** By default, a decoder removes a byte order mark (U+FEFF) from the beginning of a text, where it may be part of a name. */
class ExactTextDecoder extends TextDecoder {
  constructor(...[label, options]: ConstructorParameters<typeof TextDecoder>) {
    super(label, { ignoreBOM: true, ...options });
  }
}

/**
 * Opens the embedded PostgreSQL.
 * @param directory - the directory of its files, created if missing; without it, the database is in memory
 */
export async function openPgliteDatabase(directory?: string): Promise<Database> {
  if (directory !== undefined) await mkdir(directory, { recursive: true, mode: 0o700 });
  // Imported on demand, so that other backends start faster.
  const { PGlite } = await import('@electric-sql/pglite');
  // PGlite makes a decoder at the start and after every error.
  globalThis.TextDecoder = ExactTextDecoder;
  const database = await PGlite.create({
    ...(directory !== undefined && { dataDir: directory }),
    // By default PGlite returns an int8 as a number or a bigint, depending on its size. The program uses text.
    parsers: { [INT8]: (text: string) => text },
  });
  return {
    async query<Row>({ text }: { text: string }, values: readonly unknown[]) {
      return (await database.query<Row>(text, values as unknown[])).rows;
    },
    session: (work) => work(toSession(database)),
    transaction: (work) => database.transaction((transaction) => work(toSession(transaction))),
    close: () => database.close(),
  };
}

function toSession(connection: Pick<Transaction, 'exec'>): Session {
  return { execute: async (text) => ({ rows: (await connection.exec(text)).at(-1)?.rows ?? [] }) };
}
