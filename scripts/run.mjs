// Runs the program, as `npm start` and `npm run keys` do. Builds it first if a source is newer than the build.
import { buildIfChanged } from './build.mjs';

buildIfChanged();
// In this process, so that signals reach the program directly. For the same reason, `npm start` and `npm run dev` begin with
// `exec`: npm signals the shell, which would not pass the signal on.
await import('../dist/cli/animal-store-gateway.js');
