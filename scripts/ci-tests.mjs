/**
 * Runs all tests as CI does. npm has each version of Node as a package: everything runs on the oldest that is supported,
 * and what depends on Node most also on the recommended one and on the newest. A file with a failure runs once more, by
 * itself: many tests meet real outages and deadlines, which a busy machine can miss. The summary names such files. An
 * error outside of the tests, in a file that has passed, fails CI at once.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';

const MOST_AFFECTED = ['test/http', 'test/rest', 'test/store', 'test/process/first-start'];
const RUNS = [
  { version: '20.19', script: 'test', files: [] },
  { version: '24', script: 'test', files: MOST_AFFECTED },
  { version: '26', script: 'test', files: MOST_AFFECTED },
  { version: '20.19', script: 'test:long', files: [] },
];
/** More files than these fail for another reason than a busy machine. */
const MOST_REPEATED = 5;

const reports = mkdtempSync(join(tmpdir(), 'animal-store-reports-'));
process.on('exit', () => rmSync(reports, { recursive: true, force: true }));

const repeated = [];
const results = RUNS.map(({ version, script, files }) => {
  const result = runTests(version, script, files);
  const failed = result.files.filter(({ failures }) => failures.length > 0);
  if (failed.length === 0 || failed.length > MOST_REPEATED || failed.length === result.files.length) return result;
  if (result.unhandledErrors) return result;
  repeated.push(...failed);
  const again = runTests(version, script, [...failed.map(({ name }) => name), '--maxWorkers=1']);
  return { ...again, files: [...result.files.filter((file) => !failed.includes(file)), ...again.files] };
});

const files = results.flatMap((result) => result.files);
for (const { failures } of repeated) console.log(`failed at first, and ran again: ${failures.join('\n')}`);
for (const { failures } of files) for (const text of failures) console.log(`failed: ${text}`);
for (const { unhandledErrors } of results)
  if (unhandledErrors) console.log(`failed: outside of the tests: ${unhandledErrors}`);
const statuses = files.flatMap((file) => file.statuses);
const count = (status) => statuses.filter((one) => one === status).length;
const skipped = statuses.length - count('passed') - count('failed');
console.log(`${count('passed')} passed, ${count('failed')} failed, ${skipped} skipped`);
// A suite that could not run is a failure.
process.exit(results.every(({ isPassed }) => isPassed) && skipped === 0 ? 0 : 1);

function runTests(version, script, options) {
  const report = join(reports, `${version}-${script.replace(':', '-')}-${options.length}.json`);
  const errors = `${report}.errors`;
  const { status } = spawnSync(
    'npx',
    ['--yes', '--package', `node@${version}`, 'npm', 'run', script, '--', ...options, '--reporter=default'].concat(
      '--reporter=scripts/unhandled-errors.mjs',
      '--reporter=json',
      `--outputFile.json=${report}`,
    ),
    { stdio: 'inherit', env: { ...process.env, UNHANDLED_ERRORS: errors } },
  );
  const files = readReport(report);
  const isPassed = status === 0 && files.some(({ statuses }) => statuses.includes('passed'));
  return { files, isPassed, unhandledErrors: existsSync(errors) && readFileSync(errors, 'utf8') };
}

/** Returns the statuses of the tests of each file, and why it failed. */
function readReport(path) {
  try {
    const { testResults } = JSON.parse(readFileSync(path, 'utf8'));
    return testResults.map(({ name, status, message, assertionResults }) => {
      const file = relative(process.cwd(), name);
      const failures = assertionResults
        .filter((test) => test.status === 'failed')
        .map(({ fullName, failureMessages }) => `${file}: ${fullName}\n${failureMessages.join('\n')}`);
      // The report has no word about hooks that fail.
      if (status === 'failed' && failures.length === 0) failures.push(`${file}: ${message || 'a hook, see above'}`);
      return { name: file, statuses: assertionResults.map((test) => test.status), failures };
    });
  } catch (error) {
    return [{ name: path, statuses: [], failures: [`no report: ${error.message}`] }];
  }
}
