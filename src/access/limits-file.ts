import { appendFile, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { makeDirectory } from '../make-directory.js';
import { repeat } from '../repeat.js';
import type { LedgerSnapshot, MemoryLedger } from './memory-ledger.js';

/** A crash loses what was counted in this time. */
const SAVE_EVERY_MS = 900;
/** After this time, writing lets requests use the event loop. */
const SLICE_MS = 5;
/** The file is written anew when it has grown by as many lines as it had, and this many. */
const GROWTH = 10_000;

/** Reads the counters of a store that no server has open. There are none if the file is missing or damaged. */
export async function readLimits(path: string): Promise<LedgerSnapshot> {
  try {
    return parse(await readFile(path, 'utf8'));
  } catch {
    return [];
  }
}

/** Parses a file with one account a line, of which the last counts. A crash may have cut off the end. */
function parse(text: string): LedgerSnapshot {
  // Earlier versions wrote one list of all accounts.
  if (text.startsWith('[[')) return JSON.parse(text) as LedgerSnapshot;
  const lines = text.split('\n').slice(0, -1);
  return [...new Map(lines.map((line) => JSON.parse(line) as LedgerSnapshot[number]))];
}

/** Where problems are logged. */
interface Log {
  warn(fields: object, message: string): void;
}

/**
 * Restores the counters from the file, then adds those that change to it every second in the background. If they cannot
 * be written, one warning says so.
 * @returns a function that stops this, and writes once more
 */
export async function openLimitsFile(path: string, ledger: MemoryLedger, log: Log): Promise<() => Promise<void>> {
  let isFailing = false;
  /** The lines of the file, and how many it may have before it is written anew. */
  let lines = Infinity;
  let most = 0;
  const text = await readFile(path, 'utf8').catch(() => '');
  try {
    ledger.restore(parse(text));
  } catch (err) {
    log.warn({ err }, 'cannot read the file of the counters: counting starts at zero');
  }
  if (text !== '') await save();
  const stop = repeat({ run: save, pauseMs: () => SAVE_EVERY_MS });
  return () => stop().then(save);

  async function save(): Promise<void> {
    try {
      await (lines > most ? rewrite() : append());
      isFailing = false;
    } catch (error) {
      // A line may be incomplete.
      lines = Infinity;
      const { message } = error as Error;
      if (!isFailing) log.warn({ reason: message }, 'the file of the counters cannot be written: a crash resets them');
      isFailing = true;
    }
  }

  /** Adds the accounts that have changed. */
  async function append(): Promise<Lines> {
    const added = await format(ledger.changes());
    if (added.count > 0) await appendFile(path, added.slices.join(''));
    lines += added.count;
    return added;
  }

  /** Writes all accounts. Those that change meanwhile are still added to the present file every second. */
  async function rewrite(): Promise<void> {
    const isWhole = lines < Infinity;
    // What has changed so far is in the snapshot.
    ledger.changes();
    const meanwhile: Lines[] = [];
    let savedAt = performance.now();
    const all = await format(ledger.snapshot(), async () => {
      if (!isWhole || performance.now() - savedAt < SAVE_EVERY_MS) return;
      meanwhile.push(await append());
      savedAt = performance.now();
    });
    if (all.count === 0 && !isWhole) return;
    const parts = [all, ...meanwhile];
    await makeDirectory(dirname(path));
    await writeFile(
      `${path}.new`,
      parts.flatMap(({ slices }) => slices),
      { mode: 0o600 },
    );
    await rename(`${path}.new`, path);
    lines = parts.reduce((sum, { count }) => sum + count, 0);
    most = 2 * lines + GROWTH;
  }
}

interface Lines {
  readonly count: number;
  /** Their text, in the parts that were formatted without a pause. */
  readonly slices: readonly string[];
}

/**
 * Formats accounts as lines. With very many, this takes many turns of the event loop.
 * @param onTurn - called before each turn but the first
 */
async function format(accounts: Iterable<LedgerSnapshot[number]>, onTurn?: () => Promise<void>): Promise<Lines> {
  const slices: string[] = [];
  let slice = '';
  let count = 0;
  let startedAt = performance.now();
  for (const account of accounts) {
    slice += `${JSON.stringify(account)}\n`;
    count += 1;
    if (performance.now() - startedAt < SLICE_MS) continue;
    slices.push(slice);
    slice = '';
    await nextTurn();
    await onTurn?.();
    startedAt = performance.now();
  }
  return { count, slices: [...slices, slice] };
}
