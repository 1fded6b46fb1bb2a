import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LedgerSnapshot, MemoryLedger } from '../access/memory-ledger.js';
import type { Log } from '../observability/log.js';

const FILE = 'limits.json';
const SAVE_EVERY_MS = 5_000;

/** Keeps the rate limit counters of an embedded store across restarts. */
export interface LimitsFile {
  /** Writes the counters once more. */
  close(): Promise<void>;
}

/** Reads the counters of a store that no server has open. */
export async function readLimits(directory: string): Promise<LedgerSnapshot> {
  const text = await readFile(join(directory, FILE), 'utf8').catch(() => '[]');
  return JSON.parse(text) as LedgerSnapshot;
}

/** Restores the counters from the file, then writes them to it every few seconds in the background. */
export async function openLimitsFile(directory: string, ledger: MemoryLedger, log: Log): Promise<LimitsFile> {
  const path = join(directory, FILE);
  let saved = await readFile(path, 'utf8').catch(() => '[]');
  try {
    ledger.restore(JSON.parse(saved) as LedgerSnapshot);
  } catch (err) {
    log.warn({ err }, 'limits.json cannot be read: the counters start anew');
  }
  const timer = setInterval(() => void save(), SAVE_EVERY_MS).unref();

  return {
    close: async () => {
      clearInterval(timer);
      await save();
    },
  };

  async function save(): Promise<void> {
    const text = JSON.stringify(ledger.snapshot());
    if (text === saved) return;
    try {
      await writeFile(`${path}.new`, text, { mode: 0o600 });
      await rename(`${path}.new`, path);
      saved = text;
    } catch (err) {
      log.warn({ err }, 'limits.json cannot be written');
    }
  }
}
