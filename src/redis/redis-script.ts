import { hash } from 'node:crypto';
import type { Span } from '../observability/tracing.js';
import type { RedisCommands, RedisLink } from './redis-link.js';

/**
 * Creates the function that has Redis run a Lua script in one atomic step. Its first argument is a number unique to the
 * call, and its reply is an array of integers that starts with this number, so the reply to another call is never
 * mistaken for its own. The function returns undefined if Redis is unavailable.
 *
 * It sends the digest, and the whole text only if Redis does not know the digest.
 * @param name - its name in metrics and traces
 */
export function createScript(link: RedisLink, name: string, lua: string) {
  const digest = hash('sha1', lua);
  let calls = 0;

  return (
    keys: readonly string[],
    args: readonly (string | number)[],
    span?: Span,
  ): Promise<readonly number[] | undefined> => {
    calls = (calls + 1) % Number.MAX_SAFE_INTEGER;
    const call = calls;
    return link.ask(
      { name, operation: 'EVALSHA', span },
      (client) => run(client, [...keys, call, ...args], keys.length),
      (reply) => {
        if (!isIntegers(reply) || reply[0] !== call) throw new Error('the reply does not match the call');
        return reply.slice(1);
      },
    );
  };

  function run(client: RedisCommands, parameters: readonly (string | number)[], keys: number): Promise<unknown> {
    return client.evalsha(digest, keys, ...parameters).catch((error: unknown) => {
      if (!(error as Error).message.startsWith('NOSCRIPT')) throw error;
      return client.eval(lua, keys, ...parameters);
    });
  }
}

function isIntegers(reply: unknown): reply is readonly number[] {
  return Array.isArray(reply) && reply.every(Number.isSafeInteger);
}
