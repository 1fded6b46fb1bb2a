import { setImmediate } from 'node:timers/promises';
import {
  coerceInputValue,
  getNamedType,
  getOperationAST,
  GraphQLBoolean,
  isNonNullType,
  Kind,
  OperationTypeNode,
  parse,
  typeFromAST,
  valueFromAST,
  type DocumentNode,
  type GraphQLFormattedError,
  type GraphQLInputType,
  type GraphQLSchema,
  type OperationDefinitionNode,
  type VariableDefinitionNode,
} from 'graphql';
import { LRUCache } from 'lru-cache';
import type { MaybePromise } from '../access/maybe-promise.js';
import { StoreError } from '../errors.js';
import type { HttpRequest } from '../http/request.js';
import { JsonNumber } from '../json/exact-json.js';
import { compile, locate, toFragments } from './compile.js';
import { MAX_ERRORS, RequestErrors, type ErrorFormatter } from './errors.js';
import { requireSmallDocument, type DocumentBudget, type DocumentLimits } from './limits.js';
import type { TrustedDocuments } from './trusted.js';
import type { OperationRequest, Operation, VariableDefinition, Variables, Compiled, Prepared } from './types.js';

/** The caller pays for new documents. */
type Asker = Pick<HttpRequest, 'method' | 'caller'>;

export interface PrepareOptions {
  readonly schema: GraphQLSchema;
  /** Parses and validates a document. @throws RequestErrors */
  readonly validate: (query: string) => Promise<DocumentNode>;
  readonly trusted: Pick<TrustedDocuments, 'has'>;
  readonly limits: DocumentLimits;
  readonly errors: ErrorFormatter;
  readonly budget: DocumentBudget;
}

/** The bounds of each cache: entries, and characters of the documents that they are of. */
const MAX_ENTRIES = 2_000;
const MAX_CHARACTERS = 400_000;

/** Creates the first step of an operation. Only what is new is parsed, validated and compiled. */
export function createPrepare({ schema, validate, trusted, limits, errors, budget }: PrepareOptions) {
  const operations = createCache<Operation>();
  const compilations = createCache<Compiled>();

  return {
    prepare,
    prepareAhead,
    forgetTrusted: () => [operations, compilations].forEach(({ ofTrusted }) => ofTrusted.clear()),
  };

  /**
   * Finds the operation that a request asks for, and coerces its variables.
   * @throws RequestErrors, StoreError
   */
  function prepare(query: string, request: OperationRequest, asker: Asker): MaybePromise<Prepared> {
    const known = operations.find(query, request.operationName ?? '');
    return known ? complete(known, undefined, request, asker) : prepareNew(query, request, asker);
  }

  async function prepareNew(query: string, request: OperationRequest, asker: Asker): Promise<Prepared> {
    const document = await budget.spend(asker.caller, query, () => check(query));
    // Other requests run before the rest of the work.
    await setImmediate();
    return complete(addOperation(query, document, request.operationName), document, request, asker);
  }

  /** Prepares the operations of a document before anybody asks for them. @throws RequestErrors, StoreError */
  async function prepareAhead(query: string): Promise<void> {
    const document = await check(query);
    for (const name of listNames(document)) {
      const operation = addOperation(query, document, name);
      if (operation.conditions.length === 0) addCompiled(operation, document, {});
    }
  }

  function check(query: string): Promise<DocumentNode> {
    requireSmallDocument(query, limits);
    return validate(query);
  }

  function addOperation(text: string, document: DocumentNode, name: string | undefined): Operation {
    const node = getOperationAST(document, name);
    if (!node) {
      const reason =
        name === undefined ? 'Choose an operation with operationName' : 'The document has no such operation';
      throw new StoreError('operation_unresolved', `${reason}.`);
    }
    const { operation: type, variableDefinitions = [] } = node;
    if (type === OperationTypeNode.SUBSCRIPTION || !schema.getRootType(type)) {
      throw new StoreError('unprocessable_request', `The schema has no ${type}s.`);
    }
    const variables = variableDefinitions.map(toVariableDefinition);
    const conditions = variables.filter((one) => getNamedType(one.type) === GraphQLBoolean).map((one) => one.name);
    const operation = { type, name: node.name?.value, text, isTrusted: trusted.has(text), variables, conditions };
    // An only operation need not be named.
    const keys = listNames(document).length === 1 ? ['', operation.name ?? ''] : [name ?? ''];
    for (const key of new Set(keys)) operations.set(text, key, operation);
    return operation;
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

  /** @param document - if it has been parsed already */
  function complete(
    operation: Operation,
    document: DocumentNode | undefined,
    { variables: raw = {} }: OperationRequest,
    { method, caller }: Asker,
  ): Prepared {
    if (method !== 'POST' && operation.type !== 'query') {
      const reason = `${method} runs queries only: send a mutation by POST.`;
      throw new StoreError('method_not_allowed', reason, { headers: { Allow: 'POST' }, graphqlOnly: true });
    }
    const variables = coerceVariables(operation, raw);
    const compiled =
      compilations.find(operation.text, toVariant(operation, variables)) ??
      budget.spend(caller, operation.text, () => addCompiled(operation, document ?? parse(operation.text), variables));
    return { operation, compiled, variables };
  }

  function addCompiled(operation: Operation, document: DocumentNode, variables: Variables): Compiled {
    const node = getOperationAST(document, operation.name) as OperationDefinitionNode;
    const compiled = compile({ schema, operation: node, fragments: toFragments(document), variables, errors });
    // For introspection, it holds the parsed document, and nobody asks for that often.
    if (!compiled.hasIntrospection) compilations.set(operation.text, toVariant(operation, variables), compiled);
    return compiled;
  }

  /** Coerces the variables that a client sent. An absent variable has no entry. @throws RequestErrors */
  function coerceVariables({ variables }: Operation, raw: Variables): Variables {
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

  function createCache<Value extends object>() {
    const ofTrusted = new Map<string, Value>();
    const others = new LRUCache<string, Value>({
      max: MAX_ENTRIES,
      maxSize: MAX_CHARACTERS,
      sizeCalculation: (_, key) => key.length + 1,
    });
    const toKey = (text: string, part: string): string => (part === '' ? text : `${text}\n${part}`);
    const choose = (text: string) => (trusted.has(text) ? ofTrusted : others);
    return {
      /** No others push these out. */
      ofTrusted,
      find: (text: string, part: string) => choose(text).get(toKey(text, part)),
      set: (text: string, part: string, value: Value) => void choose(text).set(toKey(text, part), value),
    };
  }
}

export type Prepare = ReturnType<typeof createPrepare>['prepare'];

function toVariant({ name = '', conditions }: Operation, variables: Variables): string {
  return conditions.length === 0 ? name : `${name} ${conditions.map((one) => String(variables[one])).join()}`;
}

function listNames({ definitions }: DocumentNode): readonly (string | undefined)[] {
  return definitions.flatMap((one) => (one.kind === Kind.OPERATION_DEFINITION ? [one.name?.value] : []));
}

/** IDs and input objects keep numbers as they were written; the other scalars take JavaScript numbers. */
function toPlain(value: unknown, type: GraphQLInputType): unknown {
  return value instanceof JsonNumber && getNamedType(type).name !== 'ID' ? Number(value.text) : value;
}
