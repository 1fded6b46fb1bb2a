import { readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { makeDirectory } from '../make-directory.js';
import type { LedgerSnapshot, MemoryLedger } from './memory-ledger.js';

/** A crash loses what was counted in this time. */
const SAVE_EVERY_MS = 900;
/** With very many keys, a save takes a while. At most one part of this many of the time is spent on it. */
const SHARE_OF_TIME = 20;

/** Keeps the rate limit counters of an instance across restarts. */
export interface LimitsFile {
  /** Writes the counters once more. */
  close(): Promise<void>;
}

/** Reads the counters of a store that no server has open. There are none if the file is missing or damaged. */
export async function readLimits(path: string): Promise<LedgerSnapshot> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as LedgerSnapshot;
  } catch {
    return [];
  }
}

/** Where problems are logged. */
interface Log {
  warn(fields: object, message: string): void;
}

/**
 * Restores the counters from the file, then writes them to it every second in the background. If they cannot be written,
 * one warning says so.
 */
export async function openLimitsFile(path: string, ledger: MemoryLedger, log: Log): Promise<LimitsFile> {
  let isFailing = false;
  let saved = await readFile(path, 'utf8').catch(() => '[]');
  try {
    ledger.restore(JSON.parse(saved) as LedgerSnapshot);
  } catch (err) {
    log.warn({ err }, 'the file of the counters cannot be read: they start anew');
  }
  let timer: NodeJS.Timeout;
  let saving: Promise<void> | undefined;
  let isClosed = false;
  saveLater(0);

  return {
    close: async () => {
      isClosed = true;
      clearTimeout(timer);
      await saving;
      await save();
    },
  };

  function saveLater(tookMs: number): void {
    timer = setTimeout(
      () => {
        const startedAt = performance.now();
        saving = save().then(() => {
          if (!isClosed) saveLater(performance.now() - startedAt);
        });
      },
      Math.max(SAVE_EVERY_MS, SHARE_OF_TIME * tookMs),
    ).unref();
  }

  async function save(): Promise<void> {
    const text = JSON.stringify(ledger.snapshot());
    if (text === saved) return;
    try {
      await makeDirectory(dirname(path));
      await writeFile(`${path}.new`, text, { mode: 0o600 });
      await rename(`${path}.new`, path);
      saved = text;
      isFailing = false;
    } catch (error) {
      const { message } = error as Error;
      if (!isFailing) log.warn({ reason: message }, 'the file of the counters cannot be written: a crash resets them');
      isFailing = true;
    }
  }
}
