import { createRoot } from 'react-dom/client';
import 'graphiql/style.css';
import './style.css';
import { App } from './app.js';

createRoot(document.getElementById('root') as HTMLElement).render(<App />);
