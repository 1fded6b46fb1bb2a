import SwaggerUI from 'swagger-ui-dist/swagger-ui-es-bundle.js';
import 'swagger-ui-dist/swagger-ui.css';
import './style.css';
import './exact-numbers.js';
import { keyMemory } from '../key-memory.js';

const ui = SwaggerUI({
  url: new URL('v1/openapi.json', document.baseURI).href,
  domNode: document.getElementById('reference'),
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  docExpansion: 'list',
  // Without it, the page would ask swagger.io to check the document.
  validatorUrl: null,
  syntaxHighlight: { theme: 'idea' },
  requestSnippetsEnabled: true,
  onComplete() {
    const key = keyMemory.read();
    if (key !== '') ui.preauthorizeApiKey('apiKey', key);
  },
});
