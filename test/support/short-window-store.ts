import { answerAnimals, send, startScriptedUpstream, type ScriptedUpstream } from './scripted-upstream.js';

/** A store whose windows are short, so that a test can wait for them: what it counts and refuses is real. */
export interface ShortWindowStore extends ScriptedUpstream {
  /** How many requests it has refused with 429. */
  readonly refused: () => number;
}

export interface ShortWindow {
  readonly limit: number;
  readonly seconds: number;
}

export async function startShortWindowStore({ limit, seconds }: ShortWindow): Promise<ShortWindowStore> {
  let used = 0;
  let closesAt = 0;
  let refused = 0;
  const upstream = await startScriptedUpstream((request, response) => {
    const now = Date.now();
    if (closesAt <= now) {
      used = 0;
      closesAt = now + seconds * 1_000;
    }
    const isRefused = used >= limit;
    if (isRefused) refused += 1;
    else used += 1;
    const resets = Math.ceil((closesAt - now) / 1_000);
    const headers = {
      'RateLimit-Policy': `"burst";q=${limit};w=${seconds}`,
      RateLimit: `"burst";r=${limit - used};t=${resets}`,
    };
    if (isRefused) {
      const body = { code: 'rate_limited', message: 'Too many requests.', status: 429 };
      send(response, 429, body, { ...headers, 'Retry-After': String(resets) });
      return;
    }
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    answerAnimals(request, response, 0);
  });
  return { ...upstream, refused: () => refused };
}
