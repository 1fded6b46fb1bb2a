import { expect, it } from 'vitest';
import type { HttpRequest } from '../../src/http/request.js';
import { createHealth } from '../../src/observability/health.js';

it.each([
  ['', 200],
  ['?backend=true', 503],
])(
  '/readyz%s answers %i within seconds while the backend does not answer at all',
  async (search, status) => {
    const health = createHealth();
    health.setReady(() => new Promise(() => undefined));
    const request = { path: '/readyz', search, header: () => undefined } as unknown as HttpRequest;
    const reply = await health.findPage(request)?.handle(request);
    expect(reply?.status).toBe(status);
    expect(JSON.parse(String(reply?.body))).toMatchObject({ reason: 'The backend does not answer in time.' });
  },
  5_000,
);
