import { isatty } from 'node:tty';
import { setFlagsFromString } from 'node:v8';
import type { App } from './app.js';
import { ConfigError } from './config.js';
import { findKeysCommand, loadEnvironment } from './environment.js';
import { createLog } from './observability/log.js';

/** How long load balancers have to notice the end before the server stops listening, in milliseconds. */
const NOTICE_MS = 500;
/** Even without time for requests, there is state to write. */
const LEAST_GRACE_MS = 1_000;
/** The longest wait for the last lines of the log: nobody may be reading them. */
const LAST_LINES_MS = 500;

/** A signal that follows within this time, in milliseconds, is the same one: npm passes on what the process has received. */
const REPEATED_WITHIN_MS = 500;

/** Says why there is no start. For an error that an operator can fix, a stack trace would hide the line that says how. */
function report(error: unknown): void {
  if (!(error instanceof ConfigError || (error instanceof Error && 'code' in error))) {
    console.error(error);
    return;
  }
  const { message, cause } = error;
  const reason = cause instanceof Error && cause.message ? ` (${cause.message})` : '';
  console.error(`animal-store-gateway: ${message}${reason}`.split('\n')[0]);
}

async function main(): Promise<void> {
  // There is nobody to tell if these cannot be written: the disk may be full, or the terminal closed.
  for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);
  // Otherwise V8 keeps much of what requests make in the old generation, long after they have ended.
  setFlagsFromString('--no-allocation-site-pretenuring');
  // Otherwise this signal would open a debugger.
  process.on('SIGUSR1', () => undefined);
  const [argument] = process.argv.slice(2);
  if (argument !== undefined) throw new ConfigError(`unexpected argument ${JSON.stringify(argument)}`);
  const config = loadEnvironment();
  const { log, lostLines, flush } = createLog({
    level: config.logLevel,
    isPretty: !config.production && process.stdout.isTTY,
  });
  const terminals = [0, 1, 2].filter((fd) => isatty(fd));
  const exit = (status: number, signal: NodeJS.Signals = 'SIGKILL'): void => {
    const end = (isWritten: boolean): void => {
      // process.exit waits for a thread that writes to a terminal that nobody reads, and aborts if a terminal is closed.
      if (terminals.some((fd) => !isWritten || !isatty(fd)))
        process.removeAllListeners(signal).kill(process.pid, signal);
      process.exit(status);
    };
    void flush().then(() => end(true));
    setTimeout(end, LAST_LINES_MS, false).unref();
  };
  const crash = (err: unknown): void => {
    log.fatal({ err }, 'crashed');
    exit(1);
  };
  process.once('uncaughtException', crash).once('unhandledRejection', crash);

  const stopping = new AbortController();
  const start = async (): Promise<App> => {
    // Only now, because it takes longer than anything before: a wrong setting is refused at once.
    const { startApp } = await import('./app.js');
    stopping.signal.throwIfAborted();
    return startApp(config, log, { lostLines, signal: stopping.signal });
  };
  const starting = start();
  let toldAt: number | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    if (toldAt !== undefined) {
      if (performance.now() - toldAt > REPEATED_WITHIN_MS) exit(130, signal);
      return;
    }
    toldAt = performance.now();
    log.info({ signal }, 'shutting down');
    stopping.abort();
    starting.then((app) => app.close(NOTICE_MS), endStart).then(() => exit(0, signal), crash);
    // After that, nobody waits for what still keeps the database open.
    setTimeout(exit, Math.max(config.shutdownGraceMs, LEAST_GRACE_MS), 0, signal).unref();
  };
  process.on('SIGTERM', stop).on('SIGINT', stop).on('SIGHUP', stop);
  const endStart = (error: unknown): void => {
    if (stopping.signal.aborted) return;
    report(error);
    exit(1);
  };
  const app = await starting.catch(endStart);
  if (app && !stopping.signal.aborted) announce(app);
}

function announce({ url, explorerUrl, firstStart, hasKeys }: App): void {
  if (firstStart) {
    const { keys, keysFile, hasSampleAnimals } = firstStart;
    console.log(`
The new store has ${hasSampleAnimals ? 'sample animals and ' : ''}a development key for each plan, kept in ${keysFile}:
  free      ${keys.free}
  pro       ${keys.pro}
  business  ${keys.business}

Try this:
curl ${url}/graphql -H 'Authorization: Bearer ${keys.free}' -H 'Content-Type: application/json' -d '{"query":"{ pets(limit: 3) { id name status } }"}'
`);
  }
  if (!hasKeys) console.log(`There is no API key yet. Create one: ${findKeysCommand()} create --plan free`);
  if (explorerUrl !== undefined) console.log(`Explorer  ${explorerUrl}`);
  console.log(`The animal store is listening on ${url}`);
}

main().catch((error: unknown) => {
  report(error);
  process.exit(1);
});
