import { writeFileSync } from 'node:fs';

/** Tells ci-tests.mjs of errors outside of the tests. Vitest's report of the tests does not have them. */
export default class {
  onTestRunEnd(_, errors) {
    if (errors.length > 0) writeFileSync(process.env.UNHANDLED_ERRORS, '');
  }
}
