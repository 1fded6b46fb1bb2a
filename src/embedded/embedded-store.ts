import { join } from 'node:path';
import type { Database } from '../database/database.js';
import { openPgliteDatabase } from '../database/pglite-database.js';
import { acquireStoreLock } from './store-lock.js';

/**
 * Opens the embedded store of a directory, for this process alone.
 * @throws StoreBusyError when another process has it
 */
export async function openEmbeddedDatabase(directory: string): Promise<Database> {
  const lock = await acquireStoreLock(directory);
  try {
    const database = await openPgliteDatabase(join(directory, 'postgres'));
    return {
      ...database,
      close: async () => {
        await database.close();
        await lock.release();
      },
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}
