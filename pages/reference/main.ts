import SwaggerUI from 'swagger-ui-dist/swagger-ui-es-bundle.js';
import 'swagger-ui-dist/swagger-ui.css';
import './style.css';
import { keyMemory } from '../key-memory.js';
import { completeAccessibility } from './accessibility.js';
import { keepDigits } from './exact-numbers.js';

const root = document.getElementById('reference') as HTMLElement;
const dark = matchMedia('(prefers-color-scheme: dark)');
const followTheme = (): unknown => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', followTheme);
followTheme();
completeAccessibility(root);
keepDigits();

const ui = SwaggerUI({
  url: new URL('v1/openapi.json', document.baseURI).href,
  domNode: root,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  docExpansion: 'list',
  // Without it, the page would ask swagger.io to check the document.
  validatorUrl: null,
  syntaxHighlight: false,
  // The document has the addresses of a server without a path prefix.
  requestInterceptor(request: { url: string; loadSpec?: boolean }) {
    if (!request.loadSpec)
      request.url = request.url.replace(`${location.origin}/`, new URL('.', document.baseURI).href);
    return request;
  },
  onComplete() {
    const key = keyMemory.read();
    if (key !== '') ui.preauthorizeApiKey('apiKey', key);
  },
});
