import { endSpan, startSpan, type Tracer } from '../observability/tracing.js';
import { RedisUnavailableError, type RedisCall, type RedisLink } from './redis-link.js';

/**
 * Receives the duration of a call.
 * @param failure - the kind of failure, from a small set of words; undefined if the call succeeded
 */
export type ObserveRedis = (name: string, failure: string | undefined, seconds: number) => void;

/**
 * Wraps a link. It reports how long each call took, and creates a span for each call of a recorded request. The span
 * contains no values. A call that is never sent, because there is no connection, counts as none.
 */
export function observeLink(link: RedisLink, observe: ObserveRedis, tracer: Tracer): RedisLink {
  return {
    get isUp() {
      return link.isUp;
    },
    get failure() {
      return link.failure;
    },
    ask(call, send, read) {
      if (!link.isUp) return link.ask(call, send, read);
      const end = start(call);
      const reply = link.ask(call, send, read);
      reply.then(
        () => end(undefined),
        (error: unknown) => end(error instanceof RedisUnavailableError ? error.reason : '_OTHER'),
      );
      return reply;
    },
    onUp: (listener) => link.onUp(listener),
    close: () => link.close(),
  };

  function start({ name, operation, span: parent }: RedisCall): (failure: string | undefined) => void {
    const startedAt = performance.now();
    const attributes = { 'db.system.name': 'redis', 'db.operation.name': operation, 'db.query.summary': name };
    const span = parent?.isRecording() ? startSpan(tracer, 'client', name, { span: parent }, attributes) : undefined;
    return (failure) => {
      observe(name, failure, (performance.now() - startedAt) / 1_000);
      if (span) endSpan(span, {}, failure);
    };
  }
}
