import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';

const LOG = new URL('../../src/observability/log.ts', import.meta.url).href;

/** Runs a script with a `log` in a separate process, because the log writes to standard output. */
function run(script: string, isPretty = false) {
  const source = `import { createLog } from ${JSON.stringify(LOG)};
    const { log, lostLines, flush } = createLog({ level: 'info', isPretty: ${isPretty} });
    ${script}`;
  const child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '--eval', source], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const readText = async (): Promise<string[]> => {
    const lines: string[] = [];
    for await (const line of createInterface(child.stdout)) lines.push(line);
    return lines;
  };
  const read = async (): Promise<Record<string, unknown>[]> =>
    (await readText()).map((line) => JSON.parse(line) as Record<string, unknown>);
  return { child, read, readText };
}

describe('the log of a process', () => {
  it.each([
    ['flushes it', 'flush().then(() => process.exit(0))'],
    ['runs out of work', ''],
  ])('contains every line, complete and in order, when the process %s', async (_, end) => {
    const script = `for (let n = 0; n < 20_000; n++) log.info({ n, text: 'ハチ é'.repeat(n % 17) }, 'a line');
      log.info({ text: 'é'.repeat(50_000) }, 'a long line');
      ${end}`;
    const lines = await run(script).read();
    expect(lines.slice(0, -1).map(({ n }) => n)).toEqual(Array.from({ length: 20_000 }, (__, n) => n));
    expect(lines.at(-1)).toMatchObject({ text: 'é'.repeat(50_000), msg: 'a long line' });
  });

  it('writes a line soon while the process continues', async () => {
    const { child } = run(`log.info({ at: Date.now() }, 'alone'); setInterval(() => undefined, 1_000);`);
    const [text] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string];
    const { at, msg } = JSON.parse(text) as { at: number; msg: string };
    expect(msg).toBe('alone');
    expect(Date.now() - at).toBeLessThan(1_000);
    child.kill();
  });

  it('has one line for each request on a terminal, whatever it contains', async () => {
    const script = `const fields = { requestId: 'r-1', method: 'POST', path: '/graphql', address: '127.0.0.1' };
      log.info({ ...fields, status: 200, ms: 1.2, keyId: 'key_1', cost: 2, operations: 'query' }, 'request');
      log.info({ ...fields, status: 429, ms: 0.2, client: 'two\\nlines' }, 'request');`;
    const lines = await run(script, true).readText();
    expect(lines).toEqual([
      expect.stringMatching(/INFO.*request.*"requestId":"r-1".*"operations":"query"/),
      expect.stringMatching(/INFO.*request.*"status":429/),
    ]);
  });

  it('drops and counts lines if nothing reads them, instead of filling the memory', async () => {
    const script = `const text = 'x'.repeat(100_000);
      let n = 0;
      const write = () => {
        for (let i = 0; i < 100; i++) log.info({ text }, 'a line');
        if (++n < 40) setImmediate(write);
        else console.error(Math.round(process.memoryUsage().rss / 1_048_576), lostLines());
      };
      write();`;
    const { child } = run(script);
    const [output] = (await once(child.stderr.setEncoding('utf8'), 'data')) as [string];
    child.kill('SIGKILL');
    const [megabytes, lost] = output.split(' ').map(Number);
    // The script logs 4,000 lines and 400 MB, of which 8 MiB may wait.
    expect(megabytes).toBeLessThan(300);
    expect(lost).toBeGreaterThan(3_500);
    expect(lost).toBeLessThan(4_000);
  });
});
