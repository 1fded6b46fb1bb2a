import { appendFile, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { makeDirectory } from '../make-directory.js';
import { repeat } from '../repeat.js';
import type { LedgerSnapshot, MemoryLedger } from './memory-ledger.js';

/** A crash loses what was counted in this time, and while the file was written. That is a second at most. */
const SAVE_EVERY_MS = 600;
/** After this time, writing lets requests use the event loop. */
const SLICE_MS = 5;
/** The file is written anew when it has grown by as many characters as it had, and this many. */
const GROWTH = 1_000_000;

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
  const lines = text.split('\n').slice(0, -1);
  return [...new Map(lines.map((line) => JSON.parse(line) as LedgerSnapshot[number]))];
}

/**
 * Restores the counters from the file, then adds those that change to it in the background.
 * @returns a function that stops this, and writes once more
 */
export async function openLimitsFile(
  path: string,
  ledger: MemoryLedger,
  log: { warn(fields: object, message: string): void },
): Promise<() => Promise<void>> {
  let isFailing = false;
  /** The length of the file, and how long it may be before it is written anew. Infinity: it may be damaged. */
  let length = Infinity;
  let maxLength = 0;
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
      await (length > maxLength ? rewrite() : append());
      isFailing = false;
    } catch (error) {
      // A line may be incomplete.
      length = Infinity;
      const { message } = error as Error;
      if (!isFailing) log.warn({ reason: message }, 'the file of the counters cannot be written: a crash resets them');
      isFailing = true;
    }
  }

  async function append(): Promise<void> {
    const added = (await format(ledger.changes())).join('');
    if (added !== '') await appendFile(path, added);
    length += added.length;
  }

  async function rewrite(): Promise<void> {
    // What has changed so far is in the snapshot.
    ledger.changes();
    const parts = await format(ledger.snapshot());
    const newLength = parts.reduce((sum, part) => sum + part.length, 0);
    if (newLength === 0 && length === Infinity) return;
    await makeDirectory(dirname(path));
    await writeFile(`${path}.new`, parts, { mode: 0o600 });
    await rename(`${path}.new`, path);
    length = newLength;
    maxLength = 2 * length + GROWTH;
  }
}

/** Formats accounts as lines, in parts. With very many, this takes many turns of the event loop. */
async function format(accounts: Iterable<LedgerSnapshot[number]>): Promise<readonly string[]> {
  const parts: string[] = [];
  let part = '';
  let startedAt = performance.now();
  for (const account of accounts) {
    part += `${JSON.stringify(account)}\n`;
    if (performance.now() - startedAt < SLICE_MS) continue;
    parts.push(part);
    await nextTurn();
    part = '';
    startedAt = performance.now();
  }
  return [...parts, part];
}
