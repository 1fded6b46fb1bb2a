const ITEM = 'animal-store:key';

/**
 * Keeps the key for this tab only, until the tab is closed. If the browser forbids storage, a reload loses the key.
 */
export const keyMemory = {
  read: (): string => {
    try {
      return sessionStorage.getItem(ITEM) ?? '';
    } catch {
      return '';
    }
  },
  write: (key: string): void => {
    try {
      sessionStorage.setItem(ITEM, key);
    } catch {
      // The browser forbids storage. The page still has the key.
    }
  },
};
