import { execFile } from 'node:child_process';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';
import { EDITIONS } from './messages.js';

const run = promisify(execFile);

/** The suite needs a newer Node than this program. */
const SUITE = ['--yes', '--package', 'node@24', '--package', '@modelcontextprotocol/conformance@0.2.0-alpha.12'];

/** The scenarios that a server with only tools can pass, with the checks of each that ask for more. */
const SCENARIOS: Readonly<Record<(typeof EDITIONS)[number], Readonly<Record<string, readonly string[]>>>> = {
  '2025-11-25': { 'server-initialize': [], ping: [], 'tools-list': [], 'dns-rebinding-protection': [] },
  '2026-07-28': {
    'tools-list': [],
    'dns-rebinding-protection': [],
    'http-header-validation': [],
    'server-sse-multiple-streams': [],
    // Four of its 25 checks call tools of the suite.
    'server-stateless': [
      'sep-2575-server-rejects-undeclared-capability',
      'sep-2575-missing-capability-http-400',
      'sep-2575-http-server-no-independent-requests-on-stream',
      'sep-2575-server-no-log-without-loglevel',
    ],
    caching: ['sep-2549-prompts-list', 'sep-2549-resources-list', 'sep-2549-resources-templates-list'],
  },
};

describe('the official conformance suite', () => {
  let gateway: Gateway;
  let front: Server;
  let url: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    const { key } = await gateway.createKey({ plan: 'business' });
    // The suite sends no key, so it is added on the way.
    front = createServer((incoming, response) => {
      const headers = { ...incoming.headers, authorization: `Bearer ${key}` };
      const onwards = request(`${gateway.url}${incoming.url ?? ''}`, { method: incoming.method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
      incoming.pipe(onwards.on('error', () => response.destroy()));
    });
    await new Promise<void>((ready) => front.listen(0, '127.0.0.1', ready));
    url = `http://localhost:${(front.address() as AddressInfo).port}/mcp`;
    return async () => {
      front.close();
      await gateway.close();
    };
  });

  const cases = EDITIONS.flatMap((edition) =>
    Object.entries(SCENARIOS[edition]).map(([scenario, failing]) => [edition, scenario, failing] as const),
  );

  it.each(cases)('%s: %s', async (edition, scenario, failing) => {
    const options = [
      'conformance',
      'server',
      '--url',
      url,
      '--scenario',
      scenario,
      '--spec-version',
      edition,
      '--verbose',
    ];
    const { stdout } = await run('npx', [...SUITE, ...options]).catch((error: unknown) => error as { stdout: string });
    const failed = [...stdout.matchAll(/^ {4}"id": "([\w-]+)"[^]*?^ {4}"status": "(\w+)"/gm)]
      .filter(([, , status]) => status === 'FAILURE')
      .map(([, id]) => id);
    expect(stdout).toContain('SUCCESS');
    expect(failed.filter((id) => !failing.some((name) => id?.startsWith(name)))).toEqual([]);
  });
});
