import { HeaderMap, type ApolloServer } from '@apollo/server';
import { parse } from 'graphql';
import { toStoreError } from '../errors.js';
import { logFailure } from '../http/server.js';
import type { Log } from '../observability/log.js';
import { admitCompiled } from './admit.js';
import { runOperation, type ExecutedOperation } from './compiled/run.js';
import type { OperationContext } from './context.js';
import type { CompiledOperation } from './compiled/compile.js';
import type { KnownDocument, KnownDocuments } from './known-documents.js';
import { requireModestDocument, type DocumentLimits } from './modest-operation.js';
import { isIntrospection, isTooDeep } from './operation.js';
import type { OperationRequest } from './request.js';
import {
  findUpstreamRefusal,
  toHeaders,
  toRefusal,
  toResponse,
  toWholeRefusal,
  type OperationResponse,
} from './response.js';

/** Executes one operation of an HTTP request. It never rejects. */
export type Executor = (
  request: OperationRequest,
  context: OperationContext,
  method: string,
) => Promise<OperationResponse>;

export interface ExecutorOptions {
  readonly server: ApolloServer<OperationContext>;
  readonly documents: KnownDocuments;
  readonly log: Log;
  readonly documentLimits: DocumentLimits;
  /** Whether known operations go straight to what Apollo would only hand them to. */
  readonly directLane: boolean;
}

/**
 * Makes the executor. Apollo Server parses and validates every document it has not seen; a known one goes by the direct
 * lane to the same admission and the same run that Apollo's way ends in.
 */
export function createExecutor({ server, documents, log, documentLimits, directLane }: ExecutorOptions): Executor {
  return async (request, context, method) => {
    const { report, call, turn } = context;
    try {
      if (context.visit.keyId === undefined && !asksAboutSchema(request, documentLimits))
        await context.visit.requireKey();
      const known = directLane ? findKnown(request, method) : undefined;
      if (known?.errors) return toResponse({ status: 400, errors: known.errors, requestId: call.requestId });
      // What is there already is not awaited: every turn of the promise queue costs.
      const admission = known?.operation && admitCompiled(known.operation, request.variables, context);
      const prepared = admission instanceof Promise ? await admission : admission;
      if (!prepared) return await askApollo(request, context, method);
      const executed = await runOperation(prepared, context);
      return executed.isEmpty ? await answerEmpty(executed, context) : answer(executed, context);
    } catch (thrown) {
      const error = toStoreError(thrown);
      report.failures.push(error);
      return toRefusal(error, call.requestId, report.deprecations);
    } finally {
      turn.leave();
      report.endedAt = performance.now();
      // What fails because the client has gone away is no failure of ours.
      if (report.failures.length > 0 && !call.isCancelled) {
        for (const failure of report.failures) logFailure(log, failure, call.requestId);
      }
    }
  };

  /** What is known of a document: why it is not valid, or the operation that was compiled of it. */
  function findKnown(
    { query, operationName, extensions }: OperationRequest,
    method: string,
  ): { errors?: KnownDocument['errors']; operation?: CompiledOperation } | undefined {
    const known = query === undefined || extensions !== undefined ? undefined : documents.find(query);
    if (!known || known.errors) return known;
    const operation = known.operations.get(operationName);
    return operation && (method !== 'GET' || operation.type === 'query') ? { operation } : undefined;
  }

  async function askApollo(
    request: OperationRequest,
    context: OperationContext,
    method: string,
  ): Promise<OperationResponse> {
    if (request.query !== undefined) requireModestDocument(request.query, documentLimits);
    const { body, http } = await server.executeOperation(
      { ...request, http: { method, headers: NO_HEADERS, search: '', body: undefined } },
      { contextValue: context },
    );
    const { executed, deprecations, failures } = context.report;
    if (executed) return executed.isEmpty ? answerEmpty(executed, context) : answer(executed, context);
    if (body.kind !== 'single')
      throw new Error('an operation answered in parts, which the schema has no directive for');
    const { data, errors } = body.singleResult;
    if (data == null && errors && request.query !== undefined && errors.every(isOfDocument)) {
      documents.rememberErrors(request.query, errors);
    }
    const refusal = findUpstreamRefusal(data != null && Object.values(data).every((value) => value === null), failures);
    if (refusal) throw await toWholeRefusal(refusal, context.report.cost, context.visit);
    return toResponse({
      status: http.status ?? 200,
      headers: toHeaders(http.headers),
      errors,
      data: data === undefined ? undefined : JSON.stringify(data),
      deprecations,
      requestId: context.call.requestId,
    });
  }

  function answer({ data, errors }: ExecutedOperation, { report, call }: OperationContext): OperationResponse {
    return toResponse({ errors, data, deprecations: report.deprecations, requestId: call.requestId });
  }

  /** No field got data: if the upstream refused the key or its rate, that is the answer as a whole. */
  async function answerEmpty(executed: ExecutedOperation, context: OperationContext): Promise<OperationResponse> {
    const refusal = findUpstreamRefusal(true, context.report.failures);
    if (refusal) throw await toWholeRefusal(refusal, context.report.cost, context.visit);
    return answer(executed, context);
  }
}

const NO_HEADERS = new HeaderMap();

const DOCUMENT_ERRORS: ReadonlySet<unknown> = new Set(['GRAPHQL_PARSE_FAILED', 'GRAPHQL_VALIDATION_FAILED']);

/** An error that the document's text alone is the reason of. */
function isOfDocument({ extensions }: { readonly extensions?: { readonly code?: unknown } }): boolean {
  return DOCUMENT_ERRORS.has(extensions?.code);
}

/** Tells whether an operation needs no key. What cannot be parsed asks for nothing, and Apollo says what is wrong with it. */
function asksAboutSchema({ query, operationName }: OperationRequest, { maxTokens }: DocumentLimits): boolean {
  if (query === undefined) return false;
  try {
    return isTooDeep(query) || isIntrospection(parse(query, { maxTokens }), operationName);
  } catch {
    return true;
  }
}
