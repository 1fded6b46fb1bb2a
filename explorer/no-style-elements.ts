/**
 * Stands in for react-style-singleton, with which dialogs put a style element into the page to keep it from scrolling behind
 * them. The page's policy forbids such elements, and behind a dialog it may scroll.
 */
export const styleSingleton = () => () => null;
