import { createRoot } from 'react-dom/client';
import 'graphiql/style.css';
import '@graphiql/plugin-explorer/style.css';
import './style.css';
import { completeAccessibility } from './accessibility.js';
import { App } from './app.js';

createRoot(document.getElementById('root') as HTMLElement).render(<App />);
completeAccessibility();
