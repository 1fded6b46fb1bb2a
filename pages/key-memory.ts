/** The development keys by plan. */
export type DevelopmentKeys = Readonly<Record<string, string>>;

const KEY = 'animal-store:key';
const DEVELOPMENT_KEYS = 'animal-store:development-keys';

/** The storage of this tab. Null if the browser forbids it: then the property throws. */
export const tabStorage = ((): Storage | null => {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
})();

/**
 * Keeps keys for this tab only, until the tab is closed. If the browser forbids storage, a reload loses them.
 */
export const keyMemory = {
  read: (): string => tabStorage?.getItem(KEY) ?? '',
  write: (key: string): void => {
    writeItem(KEY, key);
    known = keyMemory.read();
  },
  readDevelopmentKeys: (): DevelopmentKeys =>
    JSON.parse(tabStorage?.getItem(DEVELOPMENT_KEYS) ?? '{}') as DevelopmentKeys,
  writeDevelopmentKeys: (keys: DevelopmentKeys): void => writeItem(DEVELOPMENT_KEYS, JSON.stringify(keys)),
};

let known = keyMemory.read();
// The browser may show a page again as it was, after another page has changed the key.
addEventListener('pageshow', ({ persisted }) => persisted && keyMemory.read() !== known && location.reload());

/** Stores an item for this tab, if the browser lets it. */
export function writeItem(name: string, value: string): void {
  try {
    tabStorage?.setItem(name, value);
  } catch {
    // The storage is full. The page still has the value.
  }
}
