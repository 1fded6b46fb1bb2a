import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFreePort } from './free-port.js';
import { until } from './process.js';

export interface Balancer {
  readonly url: string;
  /** How many instances are in rotation. */
  countUp(): Promise<number>;
  close(): Promise<void>;
}

/**
 * Starts HAProxy with `deploy/haproxy.cfg` in front of instances. Only their addresses and the ports differ from the
 * shipped file, because a name server of Docker is missing here.
 */
export async function startBalancer(program: string, instances: readonly number[]): Promise<Balancer> {
  const directory = await mkdtemp(join(tmpdir(), 'haproxy-'));
  const [port, healthPort, statsPort] = [await findFreePort(), await findFreePort(), await findFreePort()];
  const servers = instances.map((instance, index) => `  server store${index + 1} 127.0.0.1:${instance}`).join('\n');
  const shipped = await readFile(new URL('../../deploy/haproxy.cfg', import.meta.url), 'utf8');
  const replaced = shipped
    .replace('bind :8080', `bind 127.0.0.1:${port}`)
    .replace('bind 127.0.0.1:8404', `bind 127.0.0.1:${healthPort}`)
    .replace('  server-template store 10 store:4000', servers)
    .replace(' resolvers docker init-addr none', '');
  const stats = `\nfrontend stats\n  bind 127.0.0.1:${statsPort}\n  stats enable\n  stats uri /\n`;
  const file = join(directory, 'haproxy.cfg');
  await writeFile(file, replaced + stats);
  const child = spawn(program, ['-f', file, '-db'], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
  const ended = new Promise((resolve) => child.once('close', resolve));

  async function countUp(): Promise<number> {
    const csv = await (await fetch(`http://127.0.0.1:${statsPort}/;csv`)).text();
    return csv.split('\n').filter((line) => /^instances,store\d,.*,UP,/.test(line)).length;
  }
  await until('HAProxy has all instances', () => {
    if (child.exitCode !== null) throw new Error(`HAProxy ended: ${log}`);
    return countUp().then(
      (count) => count === instances.length,
      () => false,
    );
  });
  return {
    url: `http://127.0.0.1:${port}`,
    countUp,
    async close() {
      child.kill('SIGKILL');
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
