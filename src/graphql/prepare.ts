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
  type VariableDefinitionNode,
} from 'graphql';
import { LRUCache } from 'lru-cache';
import type { MaybePromise } from '../access/maybe-promise.js';
import { StoreError } from '../errors.js';
import type { HttpRequest } from '../http/request.js';
import { JsonNumber } from '../json/exact-json.js';
import { compile, locate, toFragments } from './compile.js';
import { MAX_ERRORS, RequestErrors, type ErrorFormatter } from './errors.js';
import type { DocumentBudget } from './limits.js';
import type { TrustedDocuments } from './trusted.js';
import type { OperationRequest, Operation, VariableDefinition, Variables, Compiled, Prepared } from './types.js';

/** The caller pays for new documents. */
type Asker = Pick<HttpRequest, 'method' | 'caller'>;

export interface PrepareOptions {
  readonly schema: GraphQLSchema;
  /** Parses and validates a document. @throws RequestErrors, StoreError */
  readonly check: (query: string) => Promise<DocumentNode>;
  readonly trusted: Pick<TrustedDocuments, 'has'>;
  readonly errors: ErrorFormatter;
  readonly budget: DocumentBudget;
}

/** The bounds of each cache: entries, and the characters and compiled fields that they keep. */
const MAX_ENTRIES = 2_000;
const MAX_SIZE = 300_000;
/** How many characters of a document take as much memory as one compiled field. */
const FIELD_CHARACTERS = 4;

/** Creates the first step of an operation. Only what is new is parsed, validated and compiled. */
export function createPrepare({ schema, check, trusted, errors, budget }: PrepareOptions) {
  const operations = createCache<Operation>(() => 0);
  const compilations = createCache<Compiled>(({ size }) => FIELD_CHARACTERS * size);

  return prepare;

  /**
   * Finds the operation that a request asks for, and coerces its variables.
   * @throws RequestErrors, StoreError
   */
  function prepare(query: string, request: OperationRequest, asker: Asker): MaybePromise<Prepared> {
    const operation = operations.get(toKey(query, request.operationName));
    if (operation) {
      const variables = toVariables(operation, request, asker);
      const compiled = compilations.get(toKey(query, toVariant(operation, variables)));
      if (compiled) return { operation, compiled, variables, isTrusted: trusted.has(query) };
    }
    return budget(asker.caller, query, () => prepareNew(query, request, asker, operation));
  }

  async function prepareNew(
    query: string,
    request: OperationRequest,
    asker: Asker,
    known?: Operation,
  ): Promise<Prepared> {
    const operation = known ?? toOperation(await check(query), request.operationName);
    operations.set(toKey(query, request.operationName), operation);
    // Other requests run before the rest of the work.
    await setImmediate();
    const variables = toVariables(operation, request, asker);
    const compiled = compile({ schema, operation, variables, errors });
    compilations.set(toKey(query, toVariant(operation, variables)), compiled);
    return { operation, compiled, variables, isTrusted: trusted.has(query) };
  }

  function toOperation(document: DocumentNode, name: string | undefined): Operation {
    const node = getOperationAST(document, name);
    if (!node) {
      const choose = 'Choose an operation with operationName.';
      throw new StoreError('operation_unresolved', name === undefined ? choose : 'The document has no such operation.');
    }
    const { operation: type, variableDefinitions = [] } = node;
    if (type === OperationTypeNode.SUBSCRIPTION || !schema.getRootType(type)) {
      throw new StoreError('unprocessable_request', `The schema has no ${type}s.`);
    }
    const variables = variableDefinitions.map(toVariableDefinition);
    const conditions = variables.filter((one) => getNamedType(one.type) === GraphQLBoolean).map((one) => one.name);
    const fragments = toFragments(document);
    return { type, name: node.name?.value, variables, conditions, node, fragments };
  }

  function toVariableDefinition({
    variable,
    type: typeNode,
    defaultValue,
  }: VariableDefinitionNode): VariableDefinition {
    const type = typeFromAST(schema, typeNode) as GraphQLInputType;
    return {
      name: variable.name.value,
      type,
      defaultValue: defaultValue && valueFromAST(defaultValue, type),
      locations: locate([variable]),
    };
  }

  /** Coerces the variables that a client sent. An absent variable has no entry. @throws RequestErrors, StoreError */
  function toVariables({ type: kind, variables }: Operation, request: OperationRequest, { method }: Asker): Variables {
    if (method !== 'POST' && kind !== 'query') {
      const reason = `${method} runs queries only: send a mutation by POST.`;
      throw new StoreError('method_not_allowed', reason, { headers: { Allow: 'POST' }, graphqlOnly: true });
    }
    const { variables: raw = {} } = request;
    // Without a prototype, any name is safe.
    const coerced = Object.create(null) as Record<string, unknown>;
    const mistakes: GraphQLFormattedError[] = [];
    for (const { name, type, defaultValue, locations } of variables) {
      const refuse = (path: readonly (string | number)[], reason: string): void => {
        const place = [`$${name}`, ...path].join('.');
        mistakes.push(errors.variable(`The variable ${place} does not fit: ${reason}`, locations, name));
        // One value may have a hundred thousand mistakes.
        if (mistakes.length === MAX_ERRORS) throw new RequestErrors(422, mistakes);
      };
      const sent = Object.hasOwn(raw, name) ? toPlain(raw[name], type) : undefined;
      const value =
        sent === undefined
          ? defaultValue
          : coerceInputValue(sent, type, (path, _, { message }) => refuse(path, message));
      if (value !== undefined) coerced[name] = value;
      else if (sent === undefined && isNonNullType(type)) refuse([], 'It is required.');
    }
    if (mistakes.length > 0) throw new RequestErrors(422, mistakes);
    return coerced;
  }
}

export type Prepare = ReturnType<typeof createPrepare>;

function createCache<Value extends object>(sizeOf: (value: Value) => number) {
  return new LRUCache<string, Value>({
    max: MAX_ENTRIES,
    maxSize: MAX_SIZE,
    sizeCalculation: (value, key) => key.length + sizeOf(value),
  });
}

function toKey(query: string, part = ''): string {
  return part === '' ? query : `${query}\n${part}`;
}

function toVariant({ name = '', conditions }: Operation, variables: Variables): string {
  return conditions.length === 0 ? name : `${name} ${conditions.map((one) => String(variables[one])).join()}`;
}

/** IDs and input objects keep numbers as they were written; the other scalars take JavaScript numbers. */
function toPlain(value: unknown, type: GraphQLInputType): unknown {
  return value instanceof JsonNumber && getNamedType(type).name !== 'ID' ? Number(value.text) : value;
}
