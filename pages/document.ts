import './front.css';
import './document.css';

/** The address in the examples of the documents. */
const DEFAULT = 'http://127.0.0.1:4000';

// Whoever reads this page has its server, which may have another port, host or path prefix.
const server = new URL('..', location.href).href.replace(/\/$/, '');
for (const element of document.querySelectorAll(`code, a[href^="${DEFAULT}"]`)) {
  element.textContent = element.textContent.replaceAll(DEFAULT, server);
  if (element instanceof HTMLAnchorElement) element.href = element.href.replace(DEFAULT, server);
}
