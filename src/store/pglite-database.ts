import { mkdir } from 'node:fs/promises';
import type { Database } from './database.js';

const INT8 = 20;

/**
 * Opens the embedded PostgreSQL.
 * @param directory - where its files are kept; made when missing; absent: in memory
 */
export async function openPgliteDatabase(directory?: string): Promise<Database> {
  if (directory !== undefined) await mkdir(directory, { recursive: true, mode: 0o700 });
  // Loaded only where it is used, for the sake of the start.
  const { PGlite } = await import('@electric-sql/pglite');
  const database = await PGlite.create({
    ...(directory !== undefined && { dataDir: directory }),
    // PGlite would give an int8 as a number or a bigint, by its size; text is exact and what the program works with.
    parsers: { [INT8]: (text: string) => text },
  });
  return {
    async query<Row>({ text }: { text: string }, values: readonly unknown[]) {
      return (await database.query<Row>(text, values as unknown[])).rows;
    },
    transaction: (work) =>
      database.transaction((transaction) =>
        work({
          execute: async (text) => ({
            rows: (await transaction.exec(text)).at(-1)?.rows ?? [],
          }),
        }),
      ),
    close: () => database.close(),
  };
}
