const ITEM = 'animal-store:key';

/**
 * Keeps the key for this tab alone: it survives a reload and goes with the tab. A browser that forbids storage forgets it
 * at the reload.
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
      // Forbidden; the page still has it.
    }
  },
};
