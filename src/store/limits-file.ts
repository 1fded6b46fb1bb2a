import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LedgerSnapshot, MemoryLedger } from '../access/memory-ledger.js';
import type { Log } from '../observability/log.js';

const SAVE_EVERY_MS = 5_000;

/** Keeps the counters of an embedded store over a restart. */
export interface LimitsFile {
  /** Writes the counters down for the last time. */
  close(): Promise<void>;
}

/** Takes the counters up again, and writes them down every few seconds, apart from any request. */
export async function openLimitsFile(directory: string, ledger: MemoryLedger, log: Log): Promise<LimitsFile> {
  const path = join(directory, 'limits.json');
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
