import { GraphQLError, OperationTypeNode, type DocumentNode, type GraphQLSchema } from 'graphql';
import { LRUCache } from 'lru-cache';
import type { MaybePromise } from '../access/maybe-promise.js';
import { StoreError } from '../errors.js';
import type { RequestContext } from '../http/request-context.js';
import { compileFields, findConditions, type RootField } from './compile.js';
import { findDeprecations } from './deprecations.js';
import type { DocumentBudget, LocalLedger } from './document-budget.js';
import { requireSmallDocument, type DocumentLimits } from './document-limits.js';
import { DocumentText, listOperations } from './document.js';
import { findDocumentStatus, formatVariableError, MAX_ERRORS, type ErrorFormatter } from './errors.js';
import type { PreparedDocument, PreparedDocuments, PreparedOperation } from './prepared-documents.js';
import { Refusal } from './refusal.js';
import { readHash, type OperationRequest } from './request.js';
import type { GraphqlServer } from './server.js';
import type { TrustedDocuments } from './trusted-documents.js';
import { compileVariables, VariableErrors, type VariableValues } from './variables.js';

/** A valid operation with its variables. */
export interface Prepared {
  readonly operation: PreparedOperation;
  readonly fields: readonly RootField[];
  readonly values: VariableValues;
  readonly text: DocumentText;
  readonly document: PreparedDocument;
}

export interface PrepareOptions {
  readonly server: GraphqlServer;
  readonly schema: GraphQLSchema;
  readonly documents: PreparedDocuments;
  readonly trusted: TrustedDocuments;
  readonly documentLimits: DocumentLimits;
  readonly formatError: ErrorFormatter;
  readonly budget: DocumentBudget;
  /** Counts the persisted queries that callers register. */
  readonly registrations: LocalLedger;
}

/**
 * Prepares an operation: takes it from the cache or has Apollo Server parse and validate its document.
 * @throws StoreError when the document exceeds a limit, or its operation cannot be served
 */
export type Prepare = (request: OperationRequest, context: RequestContext) => MaybePromise<Prepared | Refusal>;

/** Prepares the operations of a document before anybody asks for them. Returns why the document is not valid. */
export type PrepareAhead = (text: string) => Promise<string | undefined>;
type CompleteParameters = [PreparedDocument, DocumentText, OperationRequest, RequestContext];

/** Characters of persisted queries that are found by their hash without asking Apollo Server. */
const PERSISTED_CHARACTERS = 1_000_000;

/** Persisted queries that a caller may register in a minute. */
const REGISTRATIONS = [{ name: 'minute', seconds: 60, limit: 100 }] as const;

export function createPrepare({
  server,
  schema,
  documents,
  trusted,
  documentLimits,
  formatError,
  budget,
  registrations,
}: PrepareOptions): { prepare: Prepare; prepareAhead: PrepareAhead } {
  const persisted = new LRUCache<string, string>({
    maxSize: PERSISTED_CHARACTERS,
    sizeCalculation: (text) => text.length + 64,
  });

  return {
    prepare(sent, context) {
      const request = trusted.resolve(sent, context);
      const known = findKnown(request);
      return (
        (known && complete(known, new DocumentText(known.text), request, context, false)) ??
        prepareNew(request, context)
      );
    },
    async prepareAhead(query) {
      try {
        const validated = await validate({ query });
        if (validated instanceof Refusal) return validated.parts.errors[0]?.message;
        const { document, text } = validated;
        for (const name of document.names) {
          const operation = getOperation(document, text, name, true);
          if (operation?.conditions.length === 0) getFields(document, operation, text, [], true);
        }
      } catch (error) {
        if (error instanceof StoreError) return error.message;
        throw error;
      }
      return undefined;
    },
  };

  /** Validates or compiles what has not been asked for before, at the caller's expense. */
  async function prepareNew(request: OperationRequest, context: RequestContext): Promise<Prepared | Refusal> {
    await context.takeTurn(true);
    budget.require(context.caller);
    const startedAt = performance.now();
    try {
      const known = findKnown(request);
      const found = known
        ? { document: known, text: new DocumentText(known.text) }
        : await validate(mayRegister(request, context.caller) ? request : { query: request.query });
      return found instanceof Refusal ? found : complete(found.document, found.text, request, context, true);
    } finally {
      // The wait for a persisted query in Redis is nobody's work.
      if (request.query !== undefined) budget.charge(context.caller, performance.now() - startedAt);
    }
  }

  /** Beyond its quota, a caller's documents run but are not kept for their hashes, so that they replace no others. */
  function mayRegister({ query, extensions }: OperationRequest, caller: string): boolean {
    if (query === undefined || readHash(extensions) === undefined) return true;
    return registrations.admit({ id: caller, windows: REGISTRATIONS }, 1).outcome === 'admitted';
  }

  function findKnown({ query, extensions }: OperationRequest): PreparedDocument | undefined {
    if (extensions?.persistedQuery === undefined) return query === undefined ? undefined : documents.find(query);
    const hash = readHash(extensions);
    if (hash === undefined) return undefined;
    const text = persisted.get(hash);
    return text === undefined || (query !== undefined && query !== text) ? undefined : documents.find(text);
  }

  async function validate(
    request: Pick<OperationRequest, 'query'> & Partial<OperationRequest>,
  ): Promise<Pick<Prepared, 'document' | 'text'> | Refusal> {
    if (request.query !== undefined) requireSmallDocument(request.query, documentLimits);
    const validation = await server.validate({ query: request.query, extensions: request.extensions });
    if (!validation.isValid) {
      const { status, headers, errors } = validation;
      const documentStatus = findDocumentStatus(errors);
      if (request.query !== undefined && documentStatus !== undefined) {
        documents.keep({ text: request.query, errors, names: [], operations: new Map() });
      }
      return new Refusal({ status: documentStatus ?? status, headers: withoutCacheControl(headers), errors });
    }
    const { text, document } = validation;
    const hash = readHash(request.extensions);
    if (hash !== undefined) persisted.set(hash, text);
    const names = listOperations(document).map(({ name }) => name?.value);
    const prepared = { text, errors: [], names, operations: new Map<string | undefined, PreparedOperation>() };
    return { document: prepared, text: new DocumentText(text, document) };
  }

  /** Returns undefined if something has to be compiled and `mayCompile` is false. */
  function complete(...args: [...CompleteParameters, mayCompile: true]): Prepared | Refusal;
  function complete(...args: [...CompleteParameters, mayCompile: boolean]): Prepared | Refusal | undefined;
  function complete(
    document: PreparedDocument,
    text: DocumentText,
    { operationName, variables = {} }: OperationRequest,
    { method }: RequestContext,
    mayCompile: boolean,
  ): Prepared | Refusal | undefined {
    const { errors } = document;
    if (errors.length > 0) return new Refusal({ status: findDocumentStatus(errors) ?? 422, errors });
    const operation = getOperation(document, text, operationName, mayCompile);
    if (!operation) return undefined;
    if (method !== 'POST' && operation.type !== 'query') throw mutationBySafeMethod(method);
    try {
      const values = operation.variables.coerce(variables, text);
      const fields = getFields(document, operation, text, values, mayCompile);
      return fields && { operation, fields, values, text, document };
    } catch (error) {
      if (error instanceof VariableErrors) {
        const errors = error.errors.slice(0, MAX_ERRORS).map((one) => formatVariableError(one, formatError));
        return new Refusal({ status: 422, errors, operation });
      }
      // A condition of @skip or @include is null.
      if (error instanceof GraphQLError)
        return Refusal.ofPlace(
          new StoreError('invalid_request', error.message, { graphqlOnly: true }),
          error,
          operation,
        );
      throw error;
    }
  }

  function getOperation(
    document: PreparedDocument,
    text: DocumentText,
    operationName: string | undefined,
    mayCompile: boolean,
  ): PreparedOperation | undefined {
    const { names, operations } = document;
    const isFound = operationName === undefined ? names.length === 1 : names.includes(operationName);
    if (!isFound) throw unknownOperation(operationName, names);
    const name = operationName ?? names[0];
    const known = operations.get(name);
    if (known || !mayCompile) return known;
    const operation = prepareOperation(text.document, name, documents.isPinned(text.text));
    operations.set(name, operation);
    documents.keep(document);
    return operation;
  }

  function prepareOperation(document: DocumentNode, name: string | undefined, isPinned: boolean): PreparedOperation {
    const node = findOperation(document, name);
    const { operation: type } = node;
    if (type === OperationTypeNode.SUBSCRIPTION || schema.getRootType(type) == null) {
      throw new StoreError('unprocessable_request', `The schema has no ${type}s.`);
    }
    const variables = compileVariables(schema, node);
    return {
      type,
      name,
      isPinned,
      variables,
      deprecations: findDeprecations(schema, document, node),
      conditions: findConditions({ document, operation: node }, variables),
      fields: new Map(),
    };
  }

  /** The root fields as the conditions of `@skip` and `@include` leave them. */
  function getFields(
    document: PreparedDocument,
    { name, conditions, fields, variables }: PreparedOperation,
    text: DocumentText,
    values: VariableValues,
    mayCompile: boolean,
  ): readonly RootField[] | undefined {
    const combination = conditions.length === 0 ? '' : conditions.map((index) => String(values[index])).join();
    const known = fields.get(combination);
    if (known || !mayCompile) return known;
    const operation = findOperation(text.document, name);
    const compiled = compileFields({ schema, document: text.document, operation, variables }, values);
    fields.set(combination, compiled);
    documents.keep(document);
    return compiled;
  }
}

/** The response has a `Cache-Control` of its own. */
function withoutCacheControl(headers: Iterable<readonly [string, string]>): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => name !== 'cache-control'));
}

function findOperation(document: DocumentNode, name: string | undefined) {
  const found = listOperations(document).find((operation) => operation.name?.value === name);
  if (!found) throw new Error('a prepared operation is not in its document');
  return found;
}

function mutationBySafeMethod(method: string): StoreError {
  return new StoreError('method_not_allowed', `${method} runs queries only: send a mutation by POST.`, {
    headers: { Allow: 'POST' },
    graphqlOnly: true,
  });
}

/** The most operations that a message names, and characters of each name. */
const MAX_NAMES = 5;
const MAX_NAME_LENGTH = 40;

function unknownOperation(name: string | undefined, names: readonly (string | undefined)[]): StoreError {
  const listed = names.slice(0, MAX_NAMES).map((one = 'one without a name') => one.slice(0, MAX_NAME_LENGTH));
  if (names.length > MAX_NAMES) listed.push(`${names.length - MAX_NAMES} more`);
  const reason =
    name === undefined
      ? 'Choose an operation with operationName'
      : `There is no operation ${name.slice(0, MAX_NAME_LENGTH)}`;
  const had = listed.length === 0 ? 'none' : new Intl.ListFormat('en-GB').format(listed);
  return new StoreError('operation_unresolved', `${reason}: the document has ${had}.`);
}
