import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../config.js';
import type { Database } from './database.js';
import { openPgliteDatabase } from './pglite-database.js';
import { acquireStoreLock, StoreBusyError, type StoreLock } from './store-lock.js';

/**
 * Opens the embedded store of a directory, for this process alone.
 * @throws StoreBusyError when another process has it; ConfigError when the directory cannot be used
 */
export async function openEmbeddedDatabase(directory: string): Promise<Database> {
  const lock = await lockDirectory(directory);
  try {
    const database = await openFiles(directory);
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

async function lockDirectory(directory: string): Promise<StoreLock> {
  try {
    return await acquireStoreLock(directory);
  } catch (error) {
    if (error instanceof StoreBusyError || !(error instanceof Error)) throw error;
    throw new ConfigError(`DATA_DIR ${JSON.stringify(directory)} cannot be used: ${error.message}`);
  }
}

/** Opens the database's files. A mark stands beside them while they are first made: cut short, they are made anew. */
async function openFiles(directory: string): Promise<Database> {
  const files = join(directory, 'postgres');
  const mark = join(directory, 'postgres.incomplete');
  if (existsSync(mark)) await rm(files, { recursive: true, force: true });
  if (!existsSync(files)) await writeFile(mark, '');
  const database = await openPgliteDatabase(files);
  await rm(mark, { force: true });
  return database;
}
