import type pg from 'pg';

interface Config {
  /** Empty if the server should not keep the statement. */
  readonly name: string;
  readonly text: string;
  readonly values: (string | null)[];
}

type Callback = (error: Error | null, result: { readonly rows: unknown[] }) => void;

/** The names of the statements that the server has parsed, by connection. */
const parsed = new WeakMap<pg.Connection, Set<string>>();

/**
 * A statement whose columns are known, for `pg.Client.query`. It is sent in one write, does not ask for the columns, and
 * makes each row at once of what the server sends.
 */
export class KnownStatement implements pg.Submittable {
  /** Tracing reads these. */
  readonly name: string;
  readonly text: string;
  readonly #rows: unknown[] = [];

  constructor(
    private readonly config: Config,
    private readonly read: (columns: readonly (string | null)[]) => unknown,
    readonly callback: Callback,
  ) {
    this.name = config.name;
    this.text = config.text;
  }

  submit(connection: pg.Connection): void {
    const { name, text } = this;
    const { values } = this.config;
    connection.stream.cork();
    if (!parsed.get(connection)?.has(name)) {
      // The server keeps a statement that it has parsed, even if the first request with it failed.
      if (name !== '') connection.close({ type: 'S', name }, true);
      connection.parse({ name, text, types: [] }, true);
    }
    connection.bind({ portal: '', statement: name, binary: '', values }, true);
    connection.execute({ portal: '', rows: '' }, true);
    connection.sync();
    connection.stream.uncork();
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    this.#rows.push(this.read(fields));
  }

  handleReadyForQuery(connection: pg.Connection): void {
    const { name } = this;
    const names = parsed.get(connection) ?? new Set();
    if (name !== '' && !names.has(name)) parsed.set(connection, names.add(name));
    this.callback(null, { rows: this.#rows });
  }

  handleError(error: Error): void {
    this.callback(error, { rows: [] });
  }

  handleCommandComplete(): void {
    // The server is ready for the next statement only later.
  }
}
