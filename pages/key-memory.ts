/** The development keys by plan. */
export type DevelopmentKeys = Readonly<Record<string, string>>;

const KEY = 'animal-store:key';
const DEVELOPMENT_KEYS = 'animal-store:development-keys';

/**
 * Keeps keys for this tab only, until the tab is closed. If the browser forbids storage, a reload loses them.
 */
export const keyMemory = {
  read: (): string => readItem(KEY),
  write: (key: string): void => writeItem(KEY, key),
  readDevelopmentKeys: (): DevelopmentKeys => JSON.parse(readItem(DEVELOPMENT_KEYS) || '{}') as DevelopmentKeys,
  writeDevelopmentKeys: (keys: DevelopmentKeys): void => writeItem(DEVELOPMENT_KEYS, JSON.stringify(keys)),
};

function readItem(name: string): string {
  try {
    return sessionStorage.getItem(name) ?? '';
  } catch {
    return '';
  }
}

function writeItem(name: string, value: string): void {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // The browser forbids storage. The page still has the key.
  }
}
