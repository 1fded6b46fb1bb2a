import { trace } from '@opentelemetry/api';

/**
 * Adds to the span of a request, if something traces the process, what automatic instrumentation cannot know.
 * @param operations - the names of the GraphQL operations
 */
export function describeSpan(method: string, route: string, operations: string | undefined): void {
  const span = trace.getActiveSpan();
  if (!span) return;
  span.setAttribute('http.route', route);
  if (operations !== undefined) span.setAttribute('graphql.operation.name', operations);
  span.updateName([method, route, operations].filter(Boolean).join(' '));
}
