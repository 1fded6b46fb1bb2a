import type { Writable } from 'node:stream';
import { Command } from 'commander';
import { toConfigError } from '../store/store-backend.js';

/** Creates a command whose errors are one line each, which begins with its name. */
export function createProgram(name: string): Command {
  const toLine = (text: string): string =>
    `${name}: ${text.replace(/^error: |\.?\s*$/g, '').replace('\n', ' ')}; see --help\n`;
  return new Command(name).configureOutput({ outputError: (text, write) => write(toLine(text)) });
}

/** Runs a command. If it fails, prints one line and sets the exit status. */
export async function runProgram(program: Command): Promise<void> {
  try {
    await program.parseAsync();
  } catch (thrown) {
    const error = toConfigError(thrown);
    console.error(`${program.name()}: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}

/** Writes text. Rejects if it cannot be written, such as to a full disk or a closed pipe. */
export function write(stream: Writable, text: string): Promise<void> {
  // Without a listener, an error would end the process before `fail` is called.
  if (stream.listenerCount('error') === 0) stream.on('error', () => undefined);
  return new Promise((done, fail) => stream.write(text, (error) => (error ? fail(error) : done())));
}
