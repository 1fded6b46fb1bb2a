import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config.js';
import { describeWith } from '../support/installed-program.js';

const read = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
const unit = read('deploy/animal-store.service');
const get = (name: string): string | undefined => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1];

describe('the unit for systemd', () => {
  it('kills the program only after its grace time', () => {
    expect(Number(get('TimeoutStopSec')) * 1_000).toBeGreaterThan(loadConfig({}).shutdownGraceMs);
  });

  it('permits the system calls with which V8 protects compiled code', () => {
    expect(get('SystemCallFilter')?.split(' ')).toContain('@pkey');
  });

  it('runs the program as the user and with the settings of the guide', () => {
    expect(get('ExecStart')).toBe('/usr/bin/node --max-semi-space-size=32 dist/main.js');
    const guide = read('docs/operating.md');
    expect(guide).toContain(`useradd --system --shell /usr/sbin/nologin ${get('User')}\n`);
    expect(guide).toContain(`cat > ${get('EnvironmentFile')} <<`);
    expect(guide).toContain(`DATA_DIR=/var/lib/${get('StateDirectory')}\n`);
  });
});

describeWith('systemd-analyze', 'systemd-analyze verify', (analyze) => {
  /** Returns what it complains about. The path of Node differs between machines. */
  function verify(text: string): string {
    const folder = mkdtempSync(join(tmpdir(), 'unit-'));
    try {
      const path = join(folder, 'animal-store.service');
      writeFileSync(path, text.replace('/usr/bin/node', process.execPath));
      const { status, stderr } = spawnSync(analyze, ['verify', '--man=no', path], { encoding: 'utf8' });
      expect(status).not.toBeNull();
      return stderr
        .split('\n')
        .filter((line) => line.includes('animal-store.service'))
        .join('\n');
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  it('accepts the unit', () => {
    expect(verify(unit)).toBe('');
  });

  it('would detect a misspelt directive', () => {
    expect(verify(unit.replace('ProtectHome', 'ProtectHomes'))).toContain('ProtectHomes');
  });
});
