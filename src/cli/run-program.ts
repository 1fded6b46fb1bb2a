import type { Command } from 'commander';
import { toConfigError } from '../store/store-backend.js';

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
