import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { describeWith } from '../support/installed-program.js';

const RULES = fileURLToPath(new URL('../../deploy/prometheus/alerts.yaml', import.meta.url));

describeWith('promtool', 'the alerts', (promtool) => {
  /** Returns what Prometheus says about an alert at the end of some series, with one value a minute. */
  function check(
    alertname: string,
    minutes: number,
    series: Readonly<Record<string, string>>,
    firing: readonly object[],
  ) {
    const folder = mkdtempSync(join(tmpdir(), 'alerts-'));
    const test = {
      interval: '1m',
      input_series: Object.entries(series).map(([series, values]) => ({ series, values })),
      alert_rule_test: [{ alertname, eval_time: `${minutes}m`, exp_alerts: firing }],
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

  const FAILURES = 'redis_failures_total{instance="a:9464", reason="timeout"}';
  const FIRING = {
    exp_labels: { severity: 'ticket', instance: 'a:9464', reason: 'timeout' },
    exp_annotations: { summary: 'a:9464 fails to use Redis again and again: timeout.' },
  };

  it('report a Redis that fails every three minutes', () => {
    const values = Array.from({ length: 31 }, (_, minute) => Math.floor(minute / 3)).join(' ');
    expect(check('AnimalStoreRedisFlaps', 30, { [FAILURES]: values }, [FIRING])).toBe('');
  });

  it('do not report one failure of Redis, or none', () => {
    expect(check('AnimalStoreRedisFlaps', 30, { [FAILURES]: '0x20 1x10' }, [])).toBe('');
    expect(check('AnimalStoreRedisFlaps', 30, { [FAILURES]: '7x30' }, [])).toBe('');
  });

  const requests = (labels: string) => `http_server_request_duration_seconds_${labels}`;
  const ALL = requests('count{job="store", http_route="/graphql", http_response_status_code="200"}');
  const FAILED = requests('count{job="store", http_route="/graphql", http_response_status_code="503"}');
  const FAST = requests('bucket{job="store", http_route="/graphql", le="0.256"}');
  const PAGE = { severity: 'page', job: 'store' };

  it('report errors that use up the budget of a month in two days, until they end', () => {
    const summary = '1.961% of the responses are 5xx.';
    const firing = [{ exp_labels: PAGE, exp_annotations: { summary } }];
    expect(check('AnimalStoreServerErrors', 60, { [ALL]: '0+1000x60', [FAILED]: '0+20x60' }, firing)).toBe('');
    expect(check('AnimalStoreServerErrors', 90, { [ALL]: '0+1000x90', [FAILED]: '0+20x60 1200x30' }, [])).toBe('');
    expect(check('AnimalStoreServerErrors', 60, { [ALL]: '0+1000x60', [FAILED]: '0+1x60' }, [])).toBe('');
  });

  it('report a tenth of slow requests after hours, and a fifth within the hour', () => {
    const isSlow = (share: string) => [
      { exp_labels: PAGE, exp_annotations: { summary: `${share} of the requests take longer than 250 ms.` } },
    ];
    expect(check('AnimalStoreSlow', 60, { [ALL]: '0+1000x60', [FAST]: '0+800x60' }, isSlow('20%'))).toBe('');
    expect(check('AnimalStoreSlow', 360, { [ALL]: '0+1000x360', [FAST]: '0+900x360' }, isSlow('10%'))).toBe('');
    expect(check('AnimalStoreSlow', 360, { [ALL]: '0+1000x360', [FAST]: '0+960x360' }, [])).toBe('');
  });

  it('report that no instance is known', () => {
    const firing = [
      {
        exp_labels: { severity: 'page', job: 'animal-store-gateway' },
        exp_annotations: { summary: 'Prometheus knows no instance.' },
      },
    ];
    expect(check('AnimalStoreAbsent', 10, { 'up{job="other"}': '1x10' }, firing)).toBe('');
    expect(check('AnimalStoreAbsent', 10, { 'up{job="animal-store-gateway"}': '0x10' }, [])).toBe('');
  });
});
