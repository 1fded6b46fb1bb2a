import { expect, it } from 'vitest';
import { makePlace, until } from '../support/process.js';

/**
 * With the first signal, begins to sample what is allocated, and with the second, prints how many bytes have outlived
 * two collections of young objects, also if they are dead by now.
 */
const SAMPLE = `
  import { Session } from 'node:inspector/promises';
  import { setFlagsFromString } from 'node:v8';
  import { runInNewContext } from 'node:vm';
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  const session = new Session();
  session.connect();
  const sum = ({ selfSize, children }) => children.reduce((total, child) => total + sum(child), selfSize);
  let isSampling = false;
  process.on('SIGUSR2', async () => {
    for (let count = 0; count < 2; count += 1) collect({ type: 'minor' });
    if (isSampling) {
      const { profile } = await session.post('HeapProfiler.stopSampling');
      console.error('survived', sum(profile.head));
    } else {
      isSampling = true;
      await session.post('HeapProfiler.startSampling', { samplingInterval: 4096, includeObjectsCollectedByMajorGC: true });
      console.error('sampling');
    }
  });`;

const REQUESTS = 4_000;
const CONNECTIONS = 16;

it('a request leaves little behind for a full collection', async () => {
  const place = await makePlace();
  try {
    const env = {
      PORT: '0',
      DATABASE_URL: await place.database(),
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(SAMPLE)}`,
    };
    const program = await place.start(env);
    const limits = ['--per-minute', '1000000', '--per-day', '1000000'];
    const { stdout } = await place.keys(['create', '--plan', 'enterprise', ...limits, '--json'], {
      DATABASE_URL: env.DATABASE_URL,
    });
    const { key } = JSON.parse(stdout) as { key: string };
    const init = {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ query: '{ pets(limit: 20) { id name status } }' }),
    };
    let left = 0;
    const ask = async (): Promise<void> => {
      while (left-- > 0) {
        const response = await program.fetch('/graphql', init);
        expect(response.status).toBe(200);
        await response.text();
      }
    };
    const load = async (): Promise<void> => {
      left = REQUESTS;
      await Promise.all(Array.from({ length: CONNECTIONS }, ask));
    };
    await load();
    program.signal('SIGUSR2');
    await until('it samples', () => program.stderr.includes('sampling'));
    await load();
    program.signal('SIGUSR2');
    await until('it has counted', () => program.stderr.includes('survived'));
    const bytes = Number(/survived (\d+)/.exec(program.stderr)?.[1]) / REQUESTS;
    // Sets of what each request adds and removes, and lines of the log that wait for 100 ms, leave 500.
    expect(bytes).toBeLessThan(350);
  } finally {
    await place.close();
  }
});
