// Loaded into the server under test by --import: at SIGUSR2 it collects garbage and writes down what memory is in use.
import { renameSync, writeFileSync } from 'node:fs';

const FILE = process.env.MEMORY_FILE;

process.on('SIGUSR2', () => {
  globalThis.gc();
  globalThis.gc();
  writeFileSync(`${FILE}.new`, JSON.stringify(process.memoryUsage()));
  renameSync(`${FILE}.new`, FILE);
});
