import CodeMirror from 'codemirror';
import { createRoot } from 'react-dom/client';
import 'graphiql/style.css';
import './style.css';
import { completeAccessibility, letTabLeaveEditors } from './accessibility.js';
import { App } from './app.js';

// Screen readers can read an editor of this kind, and the keyboard stops at it once.
CodeMirror.defaults.inputStyle = 'contenteditable';
createRoot(document.getElementById('root') as HTMLElement).render(<App />);
completeAccessibility();
letTabLeaveEditors();
