/**
 * Runs all tests as CI does. npm has each version of Node as a package: everything runs on the oldest that is supported,
 * and what depends on Node most also on the recommended one and on the newest. A file with a failure runs once more, by
 * itself: many tests meet real outages and deadlines, which a busy machine can miss. The summary names such files.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
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
  const failed = [...new Set(result.failures.map(({ file }) => file))];
  if (result.passed === 0 || failed.length === 0 || failed.length > MOST_REPEATED) return result;
  repeated.push(...result.failures);
  const again = runTests(version, script, [...failed, '--maxWorkers=1']);
  return { ...again, passed: result.passed + again.passed, skipped: result.skipped + again.skipped };
});

for (const { text } of repeated) console.log(`failed at first, and ran again: ${text}`);
for (const { text } of results.flatMap(({ failures }) => failures)) console.log(`failed: ${text}`);
const sum = (name) => results.reduce((total, result) => total + result[name], 0);
console.log(`${sum('passed')} passed, ${sum('failed')} failed, ${sum('skipped')} skipped`);
// A suite that could not run is a failure.
process.exit(results.every(({ isPassed }) => isPassed) && sum('skipped') === 0 ? 0 : 1);

function runTests(version, script, options) {
  const report = join(reports, `${version}-${script.replace(':', '-')}-${options.length}.json`);
  const { status } = spawnSync(
    'npx',
    ['--yes', '--package', `node@${version}`, 'npm', 'run', script, '--', ...options, '--reporter=default'].concat(
      '--reporter=json',
      `--outputFile.json=${report}`,
    ),
    { stdio: 'inherit' },
  );
  const result = readReport(report);
  return { ...result, isPassed: status === 0 && result.passed > 0 };
}

function readReport(path) {
  let report;
  try {
    report = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    return { passed: 0, failed: 0, skipped: 0, failures: [{ file: path, text: `no report: ${error.message}` }] };
  }
  const failures = report.testResults.flatMap(({ name, message, assertionResults }) => {
    const file = relative(process.cwd(), name);
    return [
      ...(message ? [{ file, text: `${file}: ${message}` }] : []),
      ...assertionResults
        .filter(({ status }) => status === 'failed')
        .map(({ fullName, failureMessages }) => ({
          file,
          text: `${file}: ${fullName}\n${failureMessages.join('\n')}`,
        })),
    ];
  });
  return { passed: report.numPassedTests, failed: report.numFailedTests, skipped: report.numPendingTests, failures };
}
