import { expect, it } from 'vitest';
import { createPetClient, isPetError, type PetWait } from '../src/index.js';
import { startGateway } from '../../../test/support/gateway.js';

it('200 lookups with a free key end after a minute, with an error that agrees with the clock', async () => {
  const gateway = await startGateway('embedded');
  try {
    await gateway.sql(
      `INSERT INTO pets (name, category_id) SELECT 'Animal ' || n, 1 FROM generate_series(1, 200) AS n`,
    );
    const { key } = await gateway.createKey({ plan: 'free' });
    const waits: PetWait[] = [];
    const statuses: number[] = [];
    let requestsMs = 0;
    const client = createPetClient({
      url: `${gateway.url}/graphql`,
      key,
      onWait: (wait) => waits.push(wait),
      async fetch(...request) {
        const sentAt = performance.now();
        // The network is slow at first. A minute begins when its first request arrives.
        if (statuses.length < 2) await new Promise((resolve) => setTimeout(resolve, 500));
        const response = await fetch(...request);
        statuses.push(response.status);
        requestsMs += performance.now() - sentAt;
        return response;
      },
    });
    const startedAt = performance.now();
    const results = await client.loadMany(Array.from({ length: 200 }, (_, index) => index + 1));
    const seconds = (performance.now() - startedAt - requestsMs) / 1_000;
    const failures = results.filter(isPetError);
    expect([failures.length, waits.length]).toEqual([80, 1]);
    expect(statuses).toEqual([400, 200, 200]);
    const pattern =
      /The call waited (\d+\.?\d?) s and would have to wait (\d+\.?\d?) s more, but maxWaitMs is 65000\.$/;
    const [waited = NaN, more = NaN] = (pattern.exec(failures[0]?.message ?? '') ?? []).slice(1).map(Number);
    expect(Math.abs(waited - seconds)).toBeLessThan(3);
    expect(Math.abs(waited - (waits[0]?.waitMs ?? 0) / 1_000)).toBeLessThan(1);
    expect(waited + more).toBeGreaterThan(65);
    expect(failures[0]).toMatchObject({ code: 'RATE_LIMITED', retryAfter: Math.ceil(more) });
  } finally {
    await gateway.close();
  }
});
