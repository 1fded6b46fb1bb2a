import { endSpan, type Span } from '../observability/tracing.js';
import type { OperationFacts } from './handler.js';
import type { OperationResponse } from './response.js';

/** Characters of an operation's name. */
const MAX_NAME = 100;

/** Ends the span of an operation. The document is left out: its literals may hold anything. */
export function endOperationSpan(
  span: Span,
  { operation, cost }: OperationFacts,
  { hasData, hasErrors, failures }: OperationResponse,
): void {
  if (operation) span.updateName(operation.type);
  const error = hasErrors ? (failures[0]?.code ?? (hasData ? 'field_error' : 'request_error')) : undefined;
  endSpan(
    span,
    {
      'graphql.operation.type': operation?.type,
      'graphql.operation.name': operation?.name?.slice(0, MAX_NAME),
      'animal_store.cost': cost,
    },
    error,
  );
}
