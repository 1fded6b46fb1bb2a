import { GraphQLError, type GraphQLSchema } from 'graphql';
import { LRUCache } from 'lru-cache';
import type { MaybePromise } from '../access/maybe-promise.js';
import { StoreError } from '../errors.js';
import type { HttpRequest } from '../http/request.js';
import { compileFields, compileOperation, type RootField } from './compile.js';
import { requireSmallDocument, type DocumentBudget, type DocumentLimits } from './document-limits.js';
import { chooseOperation, DocumentSource, listOperationNames } from './document.js';
import { findDocumentStatus, MAX_ERRORS, Refusal, type ErrorFormatter } from './errors.js';
import type { PreparedDocument, PreparedDocuments, PreparedOperation } from './prepared-documents.js';
import { readHash, type OperationRequest } from './request.js';
import type { GraphqlServer } from './server.js';
import type { TrustedDocuments } from './trusted-documents.js';
import { coerceVariables, type Variables } from './variables.js';

/** A document that is known, and its text. */
interface Known {
  readonly document: PreparedDocument;
  readonly source: DocumentSource;
}

/** A valid operation with its variables. */
export interface Prepared extends Known {
  readonly operation: PreparedOperation;
  readonly fields: readonly RootField[];
  readonly variables: Readonly<Variables>;
}

export interface PrepareOptions {
  readonly server: GraphqlServer;
  readonly schema: GraphQLSchema;
  readonly documents: PreparedDocuments;
  readonly trusted: TrustedDocuments;
  readonly documentLimits: DocumentLimits;
  readonly formatError: ErrorFormatter;
  readonly budget: DocumentBudget;
}

/** Characters of persisted queries that are found by their hash without asking Apollo Server. */
const PERSISTED_CHARACTERS = 1_000_000;

/** Creates the first step of an operation. Only what is new is parsed, validated and compiled. */
export function createPrepare(options: PrepareOptions) {
  const { server, schema, documents, trusted, documentLimits, formatError, budget } = options;
  const persisted = new LRUCache<string, string>({
    maxSize: PERSISTED_CHARACTERS,
    sizeCalculation: (text) => text.length + 64,
  });

  return { prepare, prepareAhead };

  /**
   * Prepares an operation: takes it from the cache, or has Apollo Server parse and validate its document and compiles
   * it.
   * @throws StoreError when the document exceeds a limit, or its operation cannot be served
   */
  function prepare(sent: OperationRequest, context: HttpRequest): MaybePromise<Prepared | Refusal> {
    const request = trusted.resolve(sent, context);
    const known = findKnown(request);
    return (known && complete(known, request, context, false)) ?? prepareNew(request, context);
  }

  /**
   * Prepares the operations of a document before anybody asks for them.
   * @throws Error when the document is not valid
   */
  async function prepareAhead(query: string): Promise<void> {
    const known = await validate({ query });
    if (known instanceof Refusal) throw new Error(known.errors[0]?.message);
    for (const name of known.document.names) {
      const operation = addOperation(known, name);
      if (operation.conditions.length === 0) addRootFields(known, operation, {}, '');
    }
  }

  /** Prepares what has not been asked for before, at the caller's expense. */
  async function prepareNew(request: OperationRequest, context: HttpRequest): Promise<Prepared | Refusal> {
    const { query } = request;
    const { caller } = context;
    budget.require(caller);
    const startedAt = performance.now();
    const seen = findKnown(request);
    try {
      const known = seen ?? (await validate(mayRegister(request, caller) ? request : { query }));
      return known instanceof Refusal ? known : (complete(known, request, context, true) as Prepared | Refusal);
    } finally {
      budget.charge(caller, performance.now() - startedAt);
    }
  }

  /** Beyond its quota, a caller's documents run but are not kept for their hashes, so that they replace no others. */
  function mayRegister({ query, extensions }: OperationRequest, caller: string): boolean {
    if (query === undefined || readHash(extensions) === undefined) return true;
    return budget.register(caller);
  }

  function findKnown({ query, extensions }: OperationRequest): Known | undefined {
    const hash = readHash(extensions);
    // Apollo Server takes null and false for a missing member.
    const text = extensions?.persistedQuery ? hash && persisted.get(hash) : query;
    if (text === undefined || (query ?? text) !== text) return undefined;
    const document = documents.find(text);
    return document && { document, source: new DocumentSource(document.text) };
  }

  async function validate({ query, extensions }: Partial<OperationRequest>): Promise<Known | Refusal> {
    if (query !== undefined) requireSmallDocument(query, documentLimits);
    const validation = await server.validate({ query, extensions });
    if (validation instanceof Refusal) {
      if (query !== undefined && findDocumentStatus(validation.errors) !== undefined) {
        documents.keep({ text: query, refusal: validation, names: [], operations: new Map() });
      }
      return validation;
    }
    const { text, document } = validation;
    const hash = readHash(extensions);
    if (hash !== undefined) persisted.set(hash, text);
    const names = listOperationNames(document);
    return { document: { text, names, operations: new Map() }, source: new DocumentSource(text, document) };
  }

  /**
   * Finds the operation and its root fields, and coerces its variables. Returns undefined if something has to be
   * compiled first and `mayCompile` is false.
   */
  function complete(
    known: Known,
    request: OperationRequest,
    context: HttpRequest,
    mayCompile: boolean,
  ): Prepared | Refusal | undefined {
    const { document, source } = known;
    if (document.refusal) return document.refusal;
    const name = chooseOperation(document.names, request.operationName);
    const operation = document.operations.get(name) ?? (mayCompile ? addOperation(known, name) : undefined);
    if (!operation) return undefined;
    const { method } = context;
    if (method !== 'POST' && operation.type !== 'query') {
      const reason = `${method} runs queries only: send a mutation by POST.`;
      throw new StoreError('method_not_allowed', reason, { headers: { Allow: 'POST' }, graphqlOnly: true });
    }
    try {
      const variables = coerceVariables(schema, operation, request.variables ?? {}, source);
      const combination = operation.conditions.map((condition) => String(variables[condition])).join();
      const fields =
        operation.fields.get(combination) ??
        (mayCompile ? addRootFields(known, operation, variables, combination) : undefined);
      return fields && { operation, fields, variables, source, document };
    } catch (thrown) {
      return refuseVariables(thrown, operation);
    }
  }

  function refuseVariables(thrown: unknown, operation: PreparedOperation): Refusal {
    // A single error is a condition of @skip or @include that is null.
    const errors = (thrown instanceof AggregateError ? thrown.errors : [thrown]) as unknown[];
    const formatted = errors.slice(0, MAX_ERRORS).map((error) => {
      if (!(error instanceof GraphQLError)) throw error;
      const { message, nodes } = error;
      const coded = new GraphQLError(message, { nodes, extensions: { code: 'BAD_USER_INPUT' } });
      return formatError(coded.toJSON(), coded);
    });
    return new Refusal(422, formatted, operation);
  }

  function addOperation({ document, source }: Known, name: string | undefined): PreparedOperation {
    const operation = compileOperation(schema, source.document, name, documents.isPinned(source.text));
    document.operations.set(name, operation);
    documents.keep(document);
    return operation;
  }

  /** Adds the root fields as the conditions of `@skip` and `@include` leave them. */
  function addRootFields(
    { document, source }: Known,
    { name, fields }: PreparedOperation,
    variables: Readonly<Variables>,
    combination: string,
  ): readonly RootField[] {
    const compiled = compileFields(schema, source.document, name, variables);
    fields.set(combination, compiled);
    documents.keep(document);
    return compiled;
  }
}

export type Prepare = ReturnType<typeof createPrepare>['prepare'];
export type PrepareAhead = ReturnType<typeof createPrepare>['prepareAhead'];
