import { setImmediate } from 'node:timers/promises';
import {
  coerceInputValue,
  getNamedType,
  getOperationAST,
  GraphQLBoolean,
  isNonNullType,
  OperationTypeNode,
  typeFromAST,
  valueFromAST,
  type DocumentNode,
  type GraphQLFormattedError,
  type GraphQLInputType,
  type GraphQLSchema,
} from 'graphql';
import { LRUCache } from 'lru-cache';
import type { MaybePromise } from '../access/maybe-promise.js';
import { StoreError } from '../errors.js';
import type { HttpRequest } from '../http/request.js';
import { JsonNumber } from '../json/exact-json.js';
import type { Brownout } from '../pets/removal.js';
import type { Apollo } from './apollo.js';
import { compile, locate } from './compile.js';
import type { Documents } from './documents.js';
import { MAX_ERRORS, RequestErrors, toInputError } from './errors.js';
import { createDocumentBudget } from './limits.js';
import type { ExecutedOperation, Operation, OperationRequest, Prepared, Variables } from './types.js';

/** A valid document. Its operations are known by the names that requests give, which may be empty. */
interface KnownDocument {
  readonly document: DocumentNode;
  readonly operations: Map<string, Operation>;
  /** How many fields have been compiled, and what else its variants take. */
  fields: number;
}

/** The bounds of the cache: documents, and the characters and compiled fields that all and each of them keep. */
const MAX_DOCUMENTS = 2_000;
const MAX_SIZE = 500_000;
/** A hundred aliased lookups take some 15,000. A larger document is not kept, so that few cannot evict all others. */
const MAX_DOCUMENT_SIZE = 25_000;
/** How many characters of a document take as much memory as one compiled field. */
const FIELD_CHARACTERS = 4;
/** A longer body gets no suggestions for its mistakes: they would take long. */
const MAX_SUGGESTED_BYTES = 20_000;
/** What a variant takes besides its fields, even if all of them are skipped. */
const VARIANT_FIELDS = 100;

/** Creates the first step of an operation. Only what is new is parsed, validated and compiled. */
export function createPrepare(
  schema: GraphQLSchema,
  { check, hidesSchema }: Apollo,
  documents: Documents,
  brownouts: readonly Brownout[] = [],
) {
  const budget = createDocumentBudget();
  const cache = new LRUCache<string, KnownDocument>({
    max: MAX_DOCUMENTS,
    maxSize: MAX_SIZE,
    maxEntrySize: MAX_DOCUMENT_SIZE,
    sizeCalculation: ({ fields }, query) => query.length + FIELD_CHARACTERS * fields,
  });

  return prepare;

  /**
   * Finds the operation that a request asks for, and coerces its variables. The caller pays for new documents.
   * @param answer - receives the name of a document that is not trusted
   * @throws RequestErrors, StoreError
   */
  function prepare(
    request: OperationRequest,
    http: HttpRequest,
    answer: Partial<ExecutedOperation>,
  ): MaybePromise<Prepared> {
    const query = documents.find(request, http, answer);
    return findKnown(query, request, http) ?? budget(http.caller, query, () => prepareNew(query, request, http));
  }

  function findKnown(query: string, request: OperationRequest, http: HttpRequest): Prepared | undefined {
    const operation = cache.get(query)?.operations.get(request.operationName ?? '');
    if (!operation) return undefined;
    const variables = toVariables(operation, request, http);
    const compiled = operation.variants.get(toVariant(operation, variables));
    return compiled && { operation, compiled, variables };
  }

  async function prepareNew(query: string, request: OperationRequest, http: HttpRequest): Promise<Prepared> {
    const { operationName: name = '' } = request;
    const found = cache.peek(query) ?? {
      document: await check(query),
      operations: new Map<string, Operation>(),
      fields: 0,
    };
    const operation = found.operations.get(name) ?? toOperation(found.document, name);
    found.operations.set(name, operation);
    cache.set(query, found);
    // Other requests run before the rest of the work.
    await setImmediate();
    const variables = toVariables(operation, request, http);
    const variant = toVariant(operation, variables);
    let compiled = operation.variants.get(variant);
    if (!compiled) {
      compiled = compile(schema, found.document, operation.node, variables, brownouts);
      operation.variants.set(variant, compiled);
      found.fields += Math.ceil(VARIANT_FIELDS + compiled.size + variant.length / FIELD_CHARACTERS);
      // The cache measures only what is new to it.
      cache.delete(query);
      cache.set(query, found);
    }
    return { operation, compiled, variables };
  }

  function toOperation(document: DocumentNode, name: string): Operation {
    const node = getOperationAST(document, name || undefined);
    if (!node) {
      const choose = 'Choose an operation with operationName.';
      throw new StoreError('operation_unresolved', name === '' ? choose : 'The document has no such operation.');
    }
    const { operation: type, variableDefinitions = [] } = node;
    if (type === OperationTypeNode.SUBSCRIPTION || !schema.getRootType(type)) {
      throw new StoreError('unprocessable_request', `The schema has no ${type}s.`);
    }
    const variables = variableDefinitions.map(({ variable, type: typeNode, defaultValue }) => {
      const inputType = typeFromAST(schema, typeNode) as GraphQLInputType;
      return {
        name: variable.name.value,
        type: inputType,
        defaultValue: defaultValue && valueFromAST(defaultValue, inputType),
        locations: locate([variable]),
      };
    });
    const conditions = variables.filter((one) => getNamedType(one.type) === GraphQLBoolean).map((one) => one.name);
    return { type, name: node.name?.value, variables, conditions, node, variants: new Map() };
  }

  /** Coerces the variables that a client sent. An absent variable has no entry. */
  function toVariables({ type: kind, variables }: Operation, request: OperationRequest, http: HttpRequest): Variables {
    if (kind !== 'query' && http.method !== 'POST') {
      const reason = `${http.method} runs queries only: send a mutation by POST.`;
      throw new StoreError('method_not_allowed', reason, { headers: { Allow: 'POST' }, graphqlOnly: true });
    }
    const { variables: raw = {} } = request;
    const hidesSuggestions = hidesSchema || http.body.length > MAX_SUGGESTED_BYTES;
    // Without a prototype, any name is safe.
    const coerced = Object.create(null) as Record<string, unknown>;
    const mistakes: GraphQLFormattedError[] = [];
    for (const { name, type, defaultValue, locations } of variables) {
      const refuse = (path: readonly (string | number)[], reason: string): void => {
        const message = hidesSchema
          ? `The value of the variable $${name} does not fit.`
          : `The variable ${[`$${name}`, ...path].join('.')} does not fit: ${reason}`;
        mistakes.push(toInputError(message, locations));
        // One value may have a hundred thousand mistakes.
        if (mistakes.length === MAX_ERRORS) throw new RequestErrors(422, mistakes);
      };
      const sent = Object.hasOwn(raw, name) ? toPlain(raw[name], type) : undefined;
      const value =
        sent === undefined
          ? defaultValue
          : coerceInputValue(sent, type, (path, _, { message }) => refuse(path, message), hidesSuggestions);
      if (value !== undefined) coerced[name] = value;
      else if (sent === undefined && isNonNullType(type)) refuse([], 'It is required.');
    }
    if (mistakes.length > 0) throw new RequestErrors(422, mistakes);
    return coerced;
  }
}

export type Prepare = ReturnType<typeof createPrepare>;

function toVariant({ conditions }: Operation, variables: Variables): string {
  return conditions.map((one) => String(variables[one])).join();
}

/** IDs and input objects keep numbers as they were written; the other scalars take JavaScript numbers. */
function toPlain(value: unknown, type: GraphQLInputType): unknown {
  return value instanceof JsonNumber && getNamedType(type).name !== 'ID' ? Number(value.text) : value;
}
