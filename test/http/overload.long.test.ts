import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { takeDatabaseAccess, type DatabaseAccess } from '../support/database-access.js';
import {
  startGateway,
  startProxyBefore,
  type Gateway,
  type GraphqlAnswer,
  type ProxyOnly,
} from '../support/gateway.js';
import { answerAnimals, startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.js';
import { whileLocked } from '../support/table-lock.js';

/** More requests of one key than may run and wait at once. */
const CROWD = 1_200;
/** More requests of one key than run at once. */
const MANY = 80;
const LIST = '{ pets(limit: 5) { id } }';

describe('an overloaded store', () => {
  let gateway: Gateway;
  let access: DatabaseAccess;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    ({ key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1_000_000, perDay: 1_000_000 } }));
    access = await takeDatabaseAccess(gateway);
  });
  afterAll(async () => {
    await access.close();
    await gateway.close();
  });

  const list = () => gateway.graphql(LIST, { key });
  const rest = () =>
    gateway.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}`, Origin: 'http://localhost:3000' } });

  /** Runs `work` while many requests wait for a locked table and more arrive. */
  async function whileOverloaded(work: () => Promise<void>, ask: () => Promise<unknown> = rest): Promise<void> {
    await list();
    const crowd = await whileLocked(access.url, async () => {
      const started = startCrowd(ask);
      await work();
      return started;
    });
    await crowd.leave();
  }

  /** Sends requests until one is refused. A request before that may be admitted, and refused by the full pool: 200. */
  async function askUntilRefused(ask = list): Promise<GraphqlAnswer> {
    for (;;) {
      const answer = await ask();
      if (answer.status === 503) return answer;
    }
  }

  async function askRestUntilRefused(): Promise<{ answer: Response; body: { code: string } }> {
    for (;;) {
      const answer = await rest();
      const body = (await answer.json()) as { code: string };
      if (body.code === 'overloaded') return { answer, body };
    }
  }

  it('refuses excess requests in the format of each interface, and still answers probes and preflights', async () => {
    await whileOverloaded(async () => {
      const refused = await askUntilRefused();
      const message = refused.errors?.[0]?.message;
      expect(refused.status).toBe(503);
      expect(refused.headers.get('retry-after')).toBe('1');
      expect(JSON.parse(refused.text)).toEqual({
        errors: [
          {
            message,
            extensions: {
              code: 'SERVICE_UNAVAILABLE',
              error: { code: 'overloaded', message, status: 503 },
              retryAfter: 1,
              requestId: refused.headers.get('x-request-id'),
            },
          },
        ],
      });

      const { answer, body } = await askRestUntilRefused();
      expect(answer.status).toBe(503);
      expect(answer.headers.get('retry-after')).toBe('1');
      expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
      expect(answer.headers.get('access-control-allow-origin')).toBe('http://localhost:3000');
      expect(body).toEqual({ code: 'overloaded', message, status: 503 });

      expect((await gateway.fetch('/livez')).status).toBe(200);
      expect((await gateway.fetch('/metrics')).status).toBe(200);
      const preflight = { Origin: 'http://localhost:3000', 'Access-Control-Request-Method': 'POST' };
      expect((await gateway.fetch('/graphql', { method: 'OPTIONS', headers: preflight })).status).toBe(204);
    });
  });

  it('serves all requests again after the overload, and counts the refusals', async () => {
    await whileOverloaded(async () => {
      await askUntilRefused();
      await askRestUntilRefused();
    });
    const answers = await Promise.all(Array.from({ length: MANY }, list));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    await sleep(1_100);
    await list();
    const metrics = await (await gateway.fetch('/metrics')).text();
    const counted = [
      ...metrics.matchAll(/^http_server_request_duration_seconds_count\{.*error_type="overloaded".*\} (\d+)$/gm),
    ];
    expect(counted.map(([, count]) => Number(count)).every((count) => count > 0)).toBe(true);
    expect(counted).toHaveLength(2);
  });

  it('charges nothing for refused requests', async () => {
    const limits = { perMinute: 1_000_000, perDay: 1_000_000 };
    const { key: other } = await gateway.createKey({ plan: 'enterprise', limits });
    const first = await gateway.graphql(LIST, { key: other });
    const answers: GraphqlAnswer[] = [];
    const ask = async (): Promise<GraphqlAnswer> => {
      const answer = await gateway.graphql(LIST, { key: other });
      answers.push(answer);
      return answer;
    };
    await whileOverloaded(async () => {
      const refused = await askUntilRefused(ask);
      expect(refused.headers.has('retry-after')).toBe(true);
    }, ask);
    const second = await gateway.graphql(LIST, { key: other });
    // Those without the code were admitted, so they are charged, like every 503 after admission.
    const admitted = answers.filter(({ errors }) => errors?.[0]?.extensions.error?.code !== 'overloaded');
    expect(Number(second.headers.get('x-ratelimit-remaining'))).toBe(
      Number(first.headers.get('x-ratelimit-remaining')) - admitted.length - 1,
    );
  });

  it('serves the key that has few requests in progress when another key has too many', async () => {
    const { key: other } = await gateway.createKey({ plan: 'free' });
    await gateway.graphql(LIST, { key: other });
    await whileOverloaded(async () => {
      await askUntilRefused();
      const { rateLimit } = (await gateway.graphql('{ rateLimit { plan } }', { key: other })).data as {
        rateLimit: { plan: string };
      };
      expect(rateLimit.plan).toBe('FREE');
    });
  });

  it.each(['POST', 'QUERY'])('does not count requests whose body is still arriving: %s', async (method) => {
    const body = JSON.stringify({ query: LIST });
    const senders = await Promise.all(
      Array.from({ length: MANY }, async () => {
        const sent = request(`${gateway.url}/graphql`, {
          method,
          headers: {
            'Content-Type': 'application/json',
            'Content-Length': body.length,
            Authorization: `Bearer ${key}`,
            Expect: '100-continue',
          },
        });
        sent.on('error', () => undefined).flushHeaders();
        await once(sent, 'continue');
        sent.write(body.slice(0, 5));
        return sent;
      }),
    );
    for (let round = 0; round < 10; round++) {
      const answers = await Promise.all(Array.from({ length: MANY }, list));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
      await sleep(50);
    }
    const finished = senders.map(async (sent) => {
      const answered = once(sent, 'response');
      sent.end(body.slice(5));
      const [response] = (await answered) as [IncomingMessage];
      response.resume();
      return response.statusCode;
    });
    expect(new Set(await Promise.all(finished))).toEqual(new Set([200]));
  });
});

/** Sends new requests every 20 ms, and keeps their number bounded. */
function startCrowd(ask: () => Promise<unknown>): { leave(): Promise<void> } {
  const waiting = new Set<Promise<unknown>>();
  const timer = setInterval(() => {
    while (waiting.size < 2 * CROWD) {
      const asked = ask().finally(() => waiting.delete(asked));
      waiting.add(asked);
      if (waiting.size > CROWD) break;
    }
  }, 20);
  return {
    async leave() {
      clearInterval(timer);
      await Promise.all(waiting);
    },
  };
}

describe('a gateway whose upstream does not respond', () => {
  let upstream: ScriptedUpstream;
  let gateway: ProxyOnly;

  beforeAll(async () => {
    upstream = await startScriptedUpstream();
    gateway = await startProxyBefore(upstream.url, { UPSTREAM_TIMEOUT_MS: '2000' });
  });
  afterAll(async () => {
    await gateway.close();
    await upstream.close();
  });

  it('keeps few requests waiting and refuses the others at once', async () => {
    upstream.play(() => undefined);
    const codes = new Set<string>();
    const crowd = startCrowd(async () => {
      const { errors } = await gateway.graphql(LIST, { key: 'anybody' });
      codes.add(errors?.[0]?.extensions.code ?? 'served');
    });
    await vi.waitFor(() => expect(codes).toContain('SERVICE_UNAVAILABLE'), 20_000);
    await crowd.leave();
    expect(codes).toContain('UPSTREAM_TIMEOUT');
    expect(codes).not.toContain('served');
  });

  it('answers /livez at once while the most requests run', async () => {
    const keys = Array.from({ length: 6 }, (_, n) => `key-${n}`);
    upstream.play(answerAnimals);
    await Promise.all(keys.map((key) => gateway.graphql(LIST, { key })));
    upstream.play(() => undefined);
    const waiting = keys.flatMap((key) => Array.from({ length: 60 }, () => gateway.graphql(LIST, { key })));
    await sleep(500);
    expect((await gateway.fetch('/livez', { signal: AbortSignal.timeout(1_000) })).status).toBe(200);
    await Promise.all(waiting);
  });
});
