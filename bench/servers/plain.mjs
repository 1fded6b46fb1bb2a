import { startApp } from 'program/app.js';
import { loadConfig } from 'program/config.js';

/**
 * This program without authentication, limits, log and metrics, for the last line but one of the table. The
 * program has no switch for that, and should have none: here its composition root is handed parts that do nothing
 * (`AppParts.access` and `AppParts.metrics`). The requests are those of everybody else, but for a key that nobody has:
 * a build that does not take these parts answers 401.
 */
const nothing = () => undefined;
const log = { level: 'silent', trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing };
log.fatal = console.error;
log.isLevelEnabled = () => false;
log.child = () => log;

const visit = {
  keyId: 'everybody',
  isKeyRefused: false,
  requireKey: nothing,
  admit: nothing,
  allowance: nothing,
  close: nothing,
};
const access = { open: () => visit };
const metrics = {
  observeHttp: nothing,
  observeOperation: nothing,
  countOverload: nothing,
  admissions: { admitted: nothing, refused: nothing },
  watchRequests: nothing,
  watchDatabase: nothing,
  watchUpstream: nothing,
  watchSharing: () => ({ setShared: nothing, countFailure: nothing }),
  render: () => Promise.resolve(''),
  contentType: 'text/plain',
};

await startApp(loadConfig(process.env), log, { access, metrics });
