import { spawnSync } from 'node:child_process';
import { expect, inject, it } from 'vitest';
import { startGateway } from '../support/gateway.js';
import { describeWith } from '../support/installed-program.js';

describeWith('promtool', 'promtool check metrics', (promtool) => {
  const check = (metrics: string): { readonly status: number | null; readonly complaints: string } => {
    const { status, stderr } = spawnSync(promtool, ['check', 'metrics'], { input: metrics, encoding: 'utf8' });
    return { status, complaints: stderr };
  };

  it.each(['embedded', 'server', 'proxy'] as const)('finds nothing wrong with the metrics, %s', async (mode) => {
    const redisUrl = inject('redisUrl');
    const gateway = await startGateway(mode, redisUrl === undefined ? {} : { REDIS_URL: redisUrl });
    try {
      const { key } = await gateway.createKey();
      await gateway.graphql('{ pets { id } }', { key });
      const text = await (await gateway.fetch('/metrics')).text();
      expect(text).toContain('http_server_request_duration_seconds_count');
      expect(check(text)).toEqual({ status: 0, complaints: '' });
    } finally {
      await gateway.close();
    }
  });

  it('would find a counter that is not named as one', () => {
    const { status, complaints } = check('# HELP requests Requests.\n# TYPE requests counter\nrequests 1\n');
    expect(status).not.toBe(0);
    expect(complaints).toContain('requests counter metrics should have "_total" suffix');
  });
});
