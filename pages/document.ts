import './front.css';
import './document.css';

/** The addresses in the examples of the documents. */
const DEFAULTS = ['http://127.0.0.1:4000', 'http://localhost:4000'];

// Whoever reads this page has its server, which may have another port, host or path prefix.
const server = new URL('..', location.href).href.replace(/\/$/, '');
for (const address of DEFAULTS) {
  for (const element of document.querySelectorAll(`code, a[href^="${address}"]`)) {
    element.textContent = element.textContent.replaceAll(address, server);
    if (element instanceof HTMLAnchorElement) element.href = element.href.replace(address, server);
  }
}
