import type pg from 'pg';
import type { Statement } from './database.js';

/**
 * A statement whose columns are known, for `pg.Client.query`. It is sent in one write, does not ask for the columns, and
 * makes each row at once of what the server sends.
 */
export class KnownStatement implements pg.Submittable {
  readonly name: string;
  readonly text: string;
  readonly #rows: unknown[] = [];

  /** @param parsed - the names of the statements that the server keeps; undefined if it should keep none */
  constructor(
    { name, text }: Statement,
    private readonly read: NonNullable<Statement['read']>,
    private readonly values: (string | null)[],
    private readonly parsed: Set<string> | undefined,
    readonly callback: (error: Error | null, result: { readonly rows: unknown[] }) => void,
  ) {
    this.name = parsed ? name : '';
    this.text = text;
  }

  submit(connection: pg.Connection): void {
    const { name, text, values, parsed } = this;
    connection.stream.cork();
    if (!parsed?.has(name)) {
      // The server keeps a statement that it has parsed, even if the first request with it failed.
      if (parsed) connection.close({ type: 'S', name }, true);
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

  handleReadyForQuery(): void {
    this.parsed?.add(this.name);
    this.callback(null, { rows: this.#rows });
  }

  handleError(error: Error): void {
    this.callback(error, { rows: [] });
  }

  handleCommandComplete(): void {
    // The server is ready for the next statement only later.
  }
}
