import { startApp, type App } from './app.js';
import { ConfigError } from './config.js';
import { StoreBusyError } from './embedded/store-lock.js';
import { loadEnvironment } from './environment.js';
import { createLog } from './observability/log.js';

/** Errors that an operator mends, and whose stack would only hide the line that says how. */
function isOperatorError(error: unknown): error is Error {
  return (
    error instanceof ConfigError ||
    error instanceof StoreBusyError ||
    (error instanceof Error && ('code' in error || 'syscall' in error))
  );
}

/** How long a balancer that asks often, and clients, have to hear of the end before the server stops listening. */
const NOTICE_MS = 500;
/** Without any time for requests there is still something to be written down. */
const LEAST_GRACE_MS = 1_000;

/**
 * Signals that follow the first so soon, in milliseconds, are the same one: a terminal or systemd gives it to the whole process group, and
 * npm passes it on besides.
 */
const REPEATED_WITHIN_MS = 500;

function fail(error: unknown): never {
  console.error(isOperatorError(error) ? `animal-store-gateway: ${toLine(error)}` : error);
  process.exit(1);
}

/** What happened and, when that is known, why: clients are not told the cause, operators need it. */
function toLine({ message, cause }: Error): string {
  return (cause instanceof Error ? `${message} (${cause.message})` : message).split('\n')[0] as string;
}

async function main(): Promise<void> {
  const config = loadEnvironment();
  const log = createLog({ level: config.logLevel, pretty: !config.production && process.stdout.isTTY });
  const crash = (err: unknown): never => {
    log.fatal({ err }, 'crashed');
    process.exit(1);
  };
  process.once('uncaughtException', crash).once('unhandledRejection', crash);

  const starting = startApp(config, log);
  let toldAt: number | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    if (toldAt !== undefined) {
      if (performance.now() - toldAt > REPEATED_WITHIN_MS) process.exit(130);
      return;
    }
    toldAt = performance.now();
    log.info({ signal }, 'shutting down');
    const end = (): void => log.flush(() => process.exit(0));
    starting.then((app) => app.close(NOTICE_MS)).then(end, crash);
    // Whatever still holds the database open then has nobody left to answer.
    setTimeout(() => process.exit(0), Math.max(config.shutdownGraceMs, LEAST_GRACE_MS)).unref();
  };
  process.on('SIGTERM', stop).on('SIGINT', stop);

  announce(await starting);
}

function announce({ url, firstStart }: App): void {
  if (firstStart) {
    const { keys, keysFile, hasSampleAnimals } = firstStart;
    console.log(`
The store was empty: it now has ${hasSampleAnimals ? 'sample animals and ' : ''}a development key for each plan, kept in ${keysFile}.
  free      ${keys.free}
  pro       ${keys.pro}
  business  ${keys.business}

Try:
curl ${url}/graphql -H 'Authorization: Bearer ${keys.free}' -H 'Content-Type: application/json' -d '{"query":"{ pets(limit: 3) { id name status } }"}'
`);
  }
  console.log(`The animal store is listening on ${url}`);
}

main().catch(fail);
