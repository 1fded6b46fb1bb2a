import { answerAnimals, send, startScriptedUpstream, type ScriptedUpstream } from './scripted-upstream.js';

/** A store with one short window per key, so that a test can wait for its end. */
export interface ShortWindowStore extends ScriptedUpstream {
  /** The number of requests of a key that it has refused with 429. */
  readonly refusedOf: (key: string) => number;
}

export interface ShortWindow {
  readonly limit: number;
  readonly seconds: number;
}

export async function startShortWindowStore({ limit, seconds }: ShortWindow): Promise<ShortWindowStore> {
  const windows = new Map<string | undefined, { used: number; closesAt: number }>();
  const refused: (string | undefined)[] = [];
  const upstream = await startScriptedUpstream((request, response) => {
    const now = Date.now();
    const key = request.headers.authorization;
    const open = windows.get(key);
    const window = open && open.closesAt > now ? open : { used: 0, closesAt: now + seconds * 1_000 };
    windows.set(key, window);
    const isRefused = window.used >= limit;
    if (isRefused) refused.push(key);
    else window.used += 1;
    const resets = Math.ceil((window.closesAt - now) / 1_000);
    const headers = {
      'RateLimit-Policy': `"burst";q=${limit};w=${seconds}`,
      RateLimit: `"burst";r=${limit - window.used};t=${resets}`,
    };
    if (isRefused) {
      const body = { code: 'rate_limited', message: 'Too many requests.', status: 429 };
      send(response, 429, body, { ...headers, 'Retry-After': String(resets) });
      return;
    }
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    answerAnimals(request, response);
  });
  return { ...upstream, refusedOf: (key) => refused.filter((one) => one === `Bearer ${key}`).length };
}
