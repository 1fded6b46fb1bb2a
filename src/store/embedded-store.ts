import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../config.js';
import type { Database } from './database.js';
import { openPgliteDatabase } from './pglite-database.js';
import { acquireStoreLock, StoreBusyError, type StoreLock } from './store-lock.js';

/**
 * Opens the embedded store in a directory and locks it for this process.
 * @throws StoreBusyError if another process has the lock; ConfigError if the directory cannot be used
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

/**
 * Opens the database's files. A marker file exists while they are first created. A start that finds the marker deletes the
 * files and creates them again, because their creation was interrupted.
 */
async function openFiles(directory: string): Promise<Database> {
  const files = join(directory, 'postgres');
  const marker = join(directory, 'postgres.incomplete');
  if (existsSync(marker)) await rm(files, { recursive: true, force: true });
  if (!existsSync(files)) await writeFile(marker, '');
  const database = await openPgliteDatabase(files);
  await rm(marker, { force: true });
  return database;
}
