import { writeFileSync } from 'node:fs';

/** Tells ci-tests.mjs of errors outside of the tests, but not of those in a file that has failed: it runs again. */
export default class {
  onTestRunEnd(modules, errors) {
    const failed = modules.filter((module) => !module.ok()).map(({ moduleId }) => moduleId);
    const unhandled = errors.filter(({ VITEST_TEST_PATH: path }) => !failed.includes(path));
    const texts = unhandled.map((error) => `${error.VITEST_TEST_PATH ?? 'no file'}: ${error.stack ?? error.message}`);
    if (texts.length > 0) writeFileSync(process.env.UNHANDLED_ERRORS, texts.join('\n'));
  }
}
