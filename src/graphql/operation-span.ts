import { endSpan, type Span } from '../observability/tracing.js';
import type { OperationReport } from './context.js';
import type { OperationResponse } from './response.js';

/** Characters of an operation's name. */
const MAX_NAME = 100;

/** Ends the span of an operation when its response is there. The span never holds the document, which may contain anything. */
export async function traceOperation(
  span: Span,
  execution: Promise<OperationResponse>,
  report: OperationReport,
): Promise<OperationResponse> {
  const response = await execution;
  const { type, name, cost, failures } = report;
  const isKnown = type !== 'unknown';
  if (isKnown) span.updateName(type);
  const error = response.hasErrors
    ? (failures[0]?.code ?? (response.hasData ? 'field_error' : 'request_error'))
    : undefined;
  endSpan(
    span,
    {
      'graphql.operation.type': isKnown ? type : undefined,
      'graphql.operation.name': name?.slice(0, MAX_NAME),
      'animal_store.cost': cost,
    },
    error,
  );
  return response;
}
