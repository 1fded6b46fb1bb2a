import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { chain, type MaybePromise } from '../access/maybe-promise.js';
import { codeOf, TOO_MANY_CONNECTIONS } from './pg-errors.js';
import { askOnce } from './pg-hosts.js';
import { createSlots } from './slots.js';

interface PgPoolOptions {
  readonly max: number;
  /** The server that new connections go to. */
  readonly url: () => string;
  readonly prepare: boolean;
  readonly statementTimeoutMs: number;
  /** Called when a connection breaks that no statement uses. */
  readonly onConnectionError: ((error: Error) => void) | undefined;
}

/** Waiting or connecting and one statement together take less than three seconds, the longest that a client waits. */
const WAIT_TIMEOUT_MS = 1_000;
export const CONNECT_TIMEOUT_MS = 1_250;
/** After so long without data, TCP asks whether the server is there. Firewalls then do not forget the connection. */
const KEEP_ALIVE_MS = 10_000;
/** How long a slot stays taken after the server has refused it a connection. */
const FEWER_CONNECTIONS_MS = 5_000;

/**
 * What the statements and the parsing of their results depend on, whatever the database or the role has set. Behind a
 * pooler this cannot be set, so statements that grant access return values that depend on none of it. The last five
 * keep plans good at any table size: a statement of a request reads an index in the order it needs, and a report
 * adds up in memory what it would otherwise sort on disk.
 */
const SETTINGS =
  '-c DateStyle=ISO -c IntervalStyle=postgres -c TimeZone=UTC -c bytea_output=hex -c extra_float_digits=1 ' +
  '-c array_nulls=on -c standard_conforming_strings=on -c default_transaction_isolation=read\\ committed ' +
  '-c idle_session_timeout=0 -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_sort=off ' +
  '-c jit=off -c work_mem=64MB';

export type PgClient = pg.Client & {
  /** Begins its `application_name`, so that its session can be found on the server. */
  readonly id: string;
  readonly url: string;
  readonly failure: Error | undefined;
  /** The names of the statements that the server keeps. Undefined if it should keep none. */
  readonly parsed: Set<string> | undefined;
};

/** Creates a pool of connections. A statement that finds a free one takes it without a promise. */
export function createPgPool({ max, url, prepare, statementTimeoutMs, onConnectionError }: PgPoolOptions) {
  class Client extends pg.Client implements PgClient {
    readonly id: string;
    readonly url = url();
    failure: Error | undefined;
    readonly parsed = prepare ? new Set<string>() : undefined;

    constructor() {
      const id = randomUUID();
      super({
        connectionString: prepare ? addSettings(url(), id) : url(),
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        ...(prepare && { statement_timeout: statementTimeoutMs, idle_in_transaction_session_timeout: 30_000 }),
        keepAlive: true,
        keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
        application_name: 'animal-store-gateway',
      });
      this.id = id;
      this.on('error', (error) => {
        this.failure ??= error;
        // A connection that breaks in use fails its statement.
        const index = idle.indexOf(this);
        if (index === -1) return;
        idle.splice(index, 1);
        void end(this);
        onConnectionError?.(error);
      });
    }
  }

  /** A statement first waits for one of these, and then connects: a full pool is `overloaded`, a failure is not. */
  const slots = createSlots(max);
  const open = new Set<PgClient>();
  /** Those that no statement uses. The last one is used next. */
  const idle: PgClient[] = [];
  let isClosed = false;

  return {
    acquire,
    release,
    endSession,
    closeIdle,
    connections: () => ({ used: slots.used(), idle: idle.length, waiting: slots.waiting(), max }),
    /** A connection in use closes after its statement. */
    close: (): Promise<void> => {
      isClosed = true;
      return closeIdle();
    },
  };

  /** @throws StoreError `overloaded` if no connection is free in time */
  function acquire(isWrite: boolean): MaybePromise<PgClient> {
    return chain(slots.take(isWrite, WAIT_TIMEOUT_MS), () => idle.pop() ?? connect(isWrite));
  }

  /** If the server has no more connections, waits for one that is open. */
  async function connect(isWrite: boolean): Promise<PgClient> {
    const client = new Client();
    try {
      if (isClosed) throw new Error('the database is closed');
      await client.connect();
      open.add(client);
      return client;
    } catch (error) {
      void end(client);
      const isFull = codeOf(error) === TOO_MANY_CONNECTIONS && open.size > 0;
      slots.free(isWrite, isFull ? FEWER_CONNECTIONS_MS : 0);
      if (isFull) return acquire(isWrite);
      throw error;
    }
  }

  function release(client: PgClient, isWrite: boolean, isUnusable: boolean): void {
    // The database may have moved to another server meanwhile.
    if (isUnusable || isClosed || client.url !== url()) void end(client);
    else idle.push(client);
    slots.free(isWrite);
  }

  function end(client: PgClient): Promise<void> {
    open.delete(client);
    return client.end().catch(ignore);
  }

  /**
   * Ends the session of a client on the server, also in a commit that waits for a standby, which statement_timeout does
   * not end. A pooler hides which session serves a client, but ends its statement when the client leaves.
   */
  async function endSession({ id, url }: PgClient): Promise<void> {
    const text = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1';
    if (prepare) await askOnce(url, text, [`${id}%`]).catch(ignore);
  }

  async function closeIdle(): Promise<void> {
    await Promise.all(idle.splice(0).map(end));
  }
}

/** Adds what every connection sets to a URL. PostgreSQL keeps 63 bytes of the `application_name`. */
function addSettings(text: string, id: string): string {
  const url = new URL(text);
  const { searchParams } = url;
  searchParams.set('application_name', `${id} ${searchParams.get('application_name') ?? 'animal-store-gateway'}`);
  searchParams.set('options', `${searchParams.get('options') ?? ''} ${SETTINGS}`);
  return url.href;
}

const ignore = (): undefined => undefined;
