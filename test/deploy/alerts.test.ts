import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { describeWith } from '../support/installed-program.js';

const RULES = fileURLToPath(new URL('../../deploy/prometheus/alerts.yaml', import.meta.url));

describeWith('promtool', 'the alerts', (promtool) => {
  /** Returns what Prometheus says about an alert after 30 minutes of a counter, one value a minute. */
  function check(failures: string, firing: readonly object[]): string {
    const folder = mkdtempSync(join(tmpdir(), 'alerts-'));
    const labels = { instance: 'a:9464', reason: 'timeout' };
    const test = {
      interval: '1m',
      input_series: [
        { series: `redis_failures_total${JSON.stringify(labels).replace(/"(\w+)":/g, '$1=')}`, values: failures },
      ],
      alert_rule_test: [{ alertname: 'AnimalStoreRedisFlaps', eval_time: '30m', exp_alerts: firing }],
    };
    try {
      const file = join(folder, 'test.json');
      writeFileSync(file, JSON.stringify({ rule_files: [RULES], tests: [test] }));
      const { status, stdout, stderr } = spawnSync(promtool, ['test', 'rules', file], { encoding: 'utf8' });
      return status === 0 ? '' : stdout + stderr;
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  const FIRING = {
    exp_labels: { severity: 'ticket', instance: 'a:9464', reason: 'timeout' },
    exp_annotations: { summary: 'a:9464 fails to use Redis again and again: timeout.' },
  };

  it('report a Redis that fails every three minutes', () => {
    const values = Array.from({ length: 31 }, (_, minute) => Math.floor(minute / 3)).join(' ');
    expect(check(values, [FIRING])).toBe('');
  });

  it('do not report one failure, or none', () => {
    expect(check('0x20 1x10', [])).toBe('');
    expect(check('7x30', [])).toBe('');
  });
});
