import { createHash } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { makeDirectory } from '../make-directory.js';
import { repeat } from '../repeat.js';
import type { LedgerSnapshot, MemoryLedger } from './memory-ledger.js';

/** A crash loses what was counted in this time. */
const SAVE_EVERY_MS = 900;
/** With very many keys, a save takes a while. At most one part of this many of the time is spent on it. */
const SHARE_OF_TIME = 20;
/** After this time, a save lets requests use the event loop. */
const SLICE_MS = 5;

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
 * Restores the counters from the file, then writes them to it every second in the background. If they cannot be
 * written, one warning says so.
 * @returns a function that stops this, and writes the counters once more
 */
export async function openLimitsFile(path: string, ledger: MemoryLedger, log: Log): Promise<() => Promise<void>> {
  let isFailing = false;
  const text = await readFile(path, 'utf8').catch(() => '[]');
  let saved = createHash('sha256').update(text).digest('hex');
  try {
    ledger.restore(JSON.parse(text) as LedgerSnapshot);
  } catch (err) {
    log.warn({ err }, 'cannot read the file of the counters: counting starts at zero');
  }
  const stop = repeat({ run: save, pauseMs: (tookMs) => Math.max(SAVE_EVERY_MS, SHARE_OF_TIME * tookMs) });
  return () => stop().then(save);

  async function save(): Promise<void> {
    const { slices, digest } = await serialize(ledger);
    if (digest === saved) return;
    try {
      await makeDirectory(dirname(path));
      await writeFile(`${path}.new`, slices, { mode: 0o600 });
      await rename(`${path}.new`, path);
      saved = digest;
      isFailing = false;
    } catch (error) {
      const { message } = error as Error;
      if (!isFailing) log.warn({ reason: message }, 'the file of the counters cannot be written: a crash resets them');
      isFailing = true;
    }
  }
}

interface Serialized {
  /** The parts of a JSON text. */
  readonly slices: readonly string[];
  readonly digest: string;
}

/** Writes the counters as JSON. With very many keys, this takes many turns of the event loop. */
async function serialize(ledger: MemoryLedger): Promise<Serialized> {
  const slices: string[] = [];
  const hash = createHash('sha256');
  let slice = '[';
  let startedAt = performance.now();
  const endSlice = (): void => {
    slices.push(slice);
    hash.update(slice);
    slice = '';
  };
  for (const entry of ledger.snapshot()) {
    slice += (slice === '[' ? '' : ',') + JSON.stringify(entry);
    if (performance.now() - startedAt < SLICE_MS) continue;
    endSlice();
    await nextTurn();
    startedAt = performance.now();
  }
  slice += ']';
  endSlice();
  return { slices, digest: hash.digest('hex') };
}
