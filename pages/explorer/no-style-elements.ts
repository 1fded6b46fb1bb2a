/**
 * Replaces react-style-singleton. Dialogs use that package to add a style element, so that the page behind them does
 * not scroll. The page's Content-Security-Policy forbids style elements, and the page may scroll.
 */
export const styleSingleton = () => () => null;
