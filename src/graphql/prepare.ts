import { GraphQLError, OperationTypeNode, separateOperations, type DocumentNode, type GraphQLSchema } from 'graphql';
import { LRUCache } from 'lru-cache';
import { chain, type MaybePromise } from '../access/maybe-promise.js';
import { StoreError } from '../errors.js';
import type { RequestContext } from '../http/request-context.js';
import { compileFields, findConditions, type RootField } from './compile.js';
import { findDeprecations } from './deprecations.js';
import type { DocumentBudget, LocalLedger } from './document-budget.js';
import { requireSmallDocument, type DocumentLimits } from './document-limits.js';
import { chooseOperation, DocumentSource, getOperation, listOperationNames } from './document.js';
import { findDocumentStatus, formatVariableError, MAX_ERRORS, type ErrorFormatter } from './errors.js';
import type { PreparedDocument, PreparedDocuments, PreparedOperation } from './prepared-documents.js';
import { Refusal } from './refusal.js';
import { readHash, type OperationRequest } from './request.js';
import type { GraphqlServer } from './server.js';
import { recover } from './steps.js';
import type { TrustedDocuments } from './trusted-documents.js';
import { compileVariables, VariableErrors, type VariableValues } from './variables.js';

/** A document that is known, and its text. */
interface Known {
  readonly document: PreparedDocument;
  readonly source: DocumentSource;
}

/** A valid operation with its variables. */
export interface Prepared extends Known {
  readonly operation: PreparedOperation;
  readonly fields: readonly RootField[];
  readonly values: VariableValues;
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

/** Does what takes long, at once or in a turn of its own. */
type Work = <T>(work: () => MaybePromise<T>) => MaybePromise<T>;

const AT_ONCE: Work = (work) => work();

/** Characters of persisted queries that are found by their hash without asking Apollo Server. */
const PERSISTED_CHARACTERS = 1_000_000;

/** Persisted queries that a caller may register in a minute. */
const REGISTRATIONS = [{ name: 'minute', seconds: 60, limit: 100 }] as const;

export function createPrepare(options: PrepareOptions) {
  const { server, schema, documents, trusted, documentLimits, formatError, budget, registrations } = options;
  const persisted = new LRUCache<string, string>({
    maxSize: PERSISTED_CHARACTERS,
    sizeCalculation: (text) => text.length + 64,
  });

  return { prepare, prepareAhead };

  /**
   * Prepares an operation: takes it from the cache or has Apollo Server parse and validate its document.
   * @throws StoreError when the document exceeds a limit, or its operation cannot be served
   */
  function prepare(sent: OperationRequest, context: RequestContext): MaybePromise<Prepared | Refusal> {
    const request = trusted.resolve(sent, context);
    const known = findKnown(request);
    return known
      ? complete(known, request, context, (work) => workFor(context, work))
      : // The wait for a persisted query in Redis is nobody's work.
        workFor(context, () => prepareNew(request, context), request.query !== undefined);
  }

  /** Prepares the operations of a document before anybody asks for them. Returns why the document is not valid. */
  async function prepareAhead(query: string): Promise<string | undefined> {
    try {
      const known = await validate({ query });
      if (known instanceof Refusal) return known.errors[0]?.message;
      for (const name of known.document.names) {
        const operation = await findOperation(known, name, AT_ONCE);
        if (operation.conditions.length === 0) await findFields(known, operation, [], AT_ONCE);
      }
    } catch (error) {
      if (error instanceof StoreError) return error.message;
      throw error;
    }
    return undefined;
  }

  /** Works on what has not been asked for before, in a turn of its own and at the caller's expense. */
  async function workFor<T>(context: RequestContext, work: () => MaybePromise<T>, isCharged = true): Promise<T> {
    await context.takeTurn(true);
    budget.require(context.caller);
    const startedAt = performance.now();
    try {
      return await work();
    } finally {
      if (isCharged) budget.charge(context.caller, performance.now() - startedAt);
    }
  }

  async function prepareNew(request: OperationRequest, context: RequestContext): Promise<Prepared | Refusal> {
    const { query } = request;
    // Another operation of the batch may have had the document validated during the wait for the turn.
    const known = findKnown(request) ?? (await validate(mayRegister(request, context.caller) ? request : { query }));
    return known instanceof Refusal ? known : complete(known, request, context, AT_ONCE);
  }

  /** Beyond its quota, a caller's documents run but are not kept for their hashes, so that they replace no others. */
  function mayRegister({ query, extensions }: OperationRequest, caller: string): boolean {
    if (query === undefined || readHash(extensions) === undefined) return true;
    return registrations.admit({ id: caller, windows: REGISTRATIONS }, 1).outcome === 'admitted';
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
    if (!validation.isValid) {
      const { status, errors } = validation;
      const documentStatus = findDocumentStatus(errors);
      if (query !== undefined && documentStatus !== undefined) {
        documents.keep({ text: query, errors, names: [], operations: new Map() });
      }
      // The response has a `Cache-Control` of its own.
      const { 'cache-control': _, ...headers } = Object.fromEntries(validation.headers);
      return new Refusal(documentStatus ?? status, headers, errors);
    }
    const { text, document } = validation;
    const hash = readHash(extensions);
    if (hash !== undefined) persisted.set(hash, text);
    const prepared = { text, errors: [], names: listOperationNames(document), operations: new Map() };
    return { document: prepared, source: new DocumentSource(text, document) };
  }

  function complete(
    known: Known,
    { operationName, variables = {} }: OperationRequest,
    { method }: RequestContext,
    work: Work,
  ): MaybePromise<Prepared | Refusal> {
    const { document, source } = known;
    const { errors, names } = document;
    if (errors.length > 0) return new Refusal(findDocumentStatus(errors) ?? 422, {}, errors);
    return chain(findOperation(known, chooseOperation(names, operationName), work), (operation) => {
      if (method !== 'POST' && operation.type !== 'query') {
        const reason = `${method} runs queries only: send a mutation by POST.`;
        throw new StoreError('method_not_allowed', reason, { headers: { Allow: 'POST' }, graphqlOnly: true });
      }
      return recover<Prepared | Refusal>(
        () => {
          const values = operation.variables.coerce(variables, source);
          const fields = findFields(known, operation, values, work);
          return chain(fields, (compiled) => ({ operation, fields: compiled, values, source, document }));
        },
        (thrown) => refuseValues(thrown, operation),
      );
    });
  }

  function refuseValues(thrown: unknown, operation: PreparedOperation): Refusal {
    if (thrown instanceof VariableErrors) {
      const errors = thrown.errors.slice(0, MAX_ERRORS).map((error) => formatVariableError(error, formatError));
      return new Refusal(422, {}, errors, operation);
    }
    if (!(thrown instanceof GraphQLError)) throw thrown;
    // A condition of @skip or @include is null.
    const failure = new StoreError('invalid_request', thrown.message, { graphqlOnly: true });
    return Refusal.of(failure, operation, thrown.locations);
  }

  function findOperation(known: Known, name: string | undefined, work: Work): MaybePromise<PreparedOperation> {
    const { document, source } = known;
    return findOrCompile(document, document.operations, name, work, () => {
      const own = separateOperations(source.document)[name ?? ''] as DocumentNode;
      const node = getOperation(own, name);
      const { operation: type } = node;
      if (type === OperationTypeNode.SUBSCRIPTION || schema.getRootType(type) == null) {
        throw new StoreError('unprocessable_request', `The schema has no ${type}s.`);
      }
      const variables = compileVariables(schema, node);
      return {
        type,
        name,
        isPinned: documents.isPinned(source.text),
        variables,
        deprecations: findDeprecations(schema, own),
        conditions: findConditions(own, variables),
        fields: new Map(),
      };
    });
  }

  /** The root fields as the conditions of `@skip` and `@include` leave them. */
  function findFields(
    { document, source }: Known,
    { name, conditions, fields, variables }: PreparedOperation,
    values: VariableValues,
    work: Work,
  ): MaybePromise<readonly RootField[]> {
    const combination = conditions.map((index) => String(values[index])).join();
    return findOrCompile(document, fields, combination, work, () => {
      const operation = getOperation(source.document, name);
      return compileFields({ schema, document: source.document, operation, variables }, values);
    });
  }

  function findOrCompile<Key, Value>(
    document: PreparedDocument,
    compiled: Map<Key, Value>,
    key: Key,
    work: Work,
    compile: () => Value,
  ): MaybePromise<Value> {
    return (
      compiled.get(key) ??
      work(() => {
        // Another operation of the batch may have had it compiled during the wait for the turn.
        const value = compiled.get(key) ?? compile();
        compiled.set(key, value);
        documents.keep(document);
        return value;
      })
    );
  }
}

export type Prepare = ReturnType<typeof createPrepare>['prepare'];
export type PrepareAhead = ReturnType<typeof createPrepare>['prepareAhead'];
