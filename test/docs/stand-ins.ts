import { findFreePort } from '../support/free-port.js';

/** What a document prints and what the test has in its place: ports that are free, servers that are there. */
export interface StandIns {
  /** What a reader would type, as it has to be typed here. */
  toHere(text: string): Promise<string>;
  /** What came here, as the document prints it. */
  toDocument(text: string): string;
  /** The port that stands for one of the document. */
  port(printed: number): Promise<number>;
}

export interface Servers {
  /** Makes an empty database; asked once for each address that a document prints. */
  readonly createDatabase: () => Promise<string>;
  readonly redisUrl: string | undefined;
}

const PRINTED_DATABASE = /postgres:\/\/[^\s'"…]+:\d+\/\w+/g;
const PRINTED_REDIS = /redis:\/\/127\.0\.0\.1:6379(?:\/\d+)?/g;
const PRINTED_STORE = 'https://store.example.com';
const PRINTED_PORT = /(?<=(?:127\.0\.0\.1|localhost):|PORT=)\d{4,5}\b/g;

export function createStandIns({ createDatabase, redisUrl }: Servers): StandIns {
  const ports = new Map<number, number>();
  const databases = new Map<string, string>();

  async function port(printed: number): Promise<number> {
    const free = ports.get(printed) ?? (await findFreePort());
    ports.set(printed, free);
    return free;
  }

  return {
    port,
    async toHere(text) {
      for (const [printed] of text.matchAll(PRINTED_DATABASE)) {
        if (!databases.has(printed)) databases.set(printed, await createDatabase());
      }
      const others = text.replace(PRINTED_DATABASE, '').replace(PRINTED_REDIS, '');
      for (const [printed] of others.matchAll(PRINTED_PORT)) await port(Number(printed));
      const store = `http://127.0.0.1:${await port(4000)}`;
      // Whole addresses first, and marked, so that their ports are not taken for the document's.
      const kept: string[] = [];
      const keep = (value: string): string => `\0${kept.push(value) - 1}\0`;
      return text
        .replace(PRINTED_DATABASE, (printed) => keep(databases.get(printed) as string))
        .replace(PRINTED_REDIS, (printed) => keep(redisUrl ?? printed))
        .replaceAll(PRINTED_STORE, keep(store))
        .replace(PRINTED_PORT, (printed) => String(ports.get(Number(printed))))
        .replace(/\0(\d+)\0/g, (_, index: string) => kept[Number(index)] as string);
    },
    toDocument: (text) =>
      [...ports].reduce((rest, [printed, free]) => rest.replaceAll(`:${free}`, `:${printed}`), text),
  };
}
