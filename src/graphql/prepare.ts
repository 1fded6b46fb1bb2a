import { setImmediate } from 'node:timers/promises';
import {
  coerceInputValue,
  getNamedType,
  getOperationAST,
  getVariableValues,
  GraphQLBoolean,
  isNonNullType,
  Kind,
  OperationTypeNode,
  parse,
  typeFromAST,
  valueFromAST,
  type DocumentNode,
  type GraphQLInputType,
  type GraphQLSchema,
  type OperationDefinitionNode,
  type VariableDefinitionNode,
} from 'graphql';
import { LRUCache } from 'lru-cache';
import type { MaybePromise } from '../access/maybe-promise.js';
import { StoreError } from '../errors.js';
import type { RequestContext } from '../http/request-context.js';
import { JsonNumber } from '../json/exact-json.js';
import { compile, toFragments, type Compiled, type Variables } from './compile.js';
import { MAX_ERRORS, RequestErrors, type ErrorFormatter } from './errors.js';
import { requireSmallDocument, type DocumentBudget, type DocumentLimits } from './limits.js';
import type { OperationRequest } from './request.js';
import type { TrustedDocuments } from './trusted.js';

/** An operation of a valid document. */
interface Operation {
  readonly type: 'query' | 'mutation';
  readonly name: string | undefined;
  /** The text of its document. */
  readonly text: string;
  /** Whether its document is in the manifest, so that its name may be a label of metrics. */
  readonly isTrusted: boolean;
  readonly variables: readonly VariableDefinition[];
  /** The names of the variables that `@skip` and `@include` can look at. */
  readonly conditions: readonly string[];
}

interface VariableDefinition {
  readonly name: string;
  readonly type: GraphQLInputType;
  /** Undefined if the variable has no default. */
  readonly defaultValue: unknown;
}

/** A valid operation with its variables. */
export interface Prepared {
  readonly operation: Operation;
  readonly compiled: Compiled;
  readonly variables: Variables;
}

/** The caller pays for new documents. */
type Asker = Pick<RequestContext, 'method' | 'caller'>;

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
const MAX_ENTRIES = 5_000;
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
    const document = await budget.spend(asker.caller, () => check(query));
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
    const node = getOperationAST(document, name) ?? refuseName(listNames(document), name);
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
    return { name: variable.name.value, type, defaultValue: defaultValue && valueFromAST(defaultValue, type) };
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
    const parsed = (): DocumentNode => (document ??= parse(operation.text));
    const variables = coerceVariables(operation, raw) ?? explainVariables(operation, parsed(), raw);
    const compiled =
      compilations.find(operation.text, toVariant(operation, variables)) ??
      budget.spend(caller, () => addCompiled(operation, parsed(), variables));
    return { operation, compiled, variables };
  }

  function addCompiled(operation: Operation, document: DocumentNode, variables: Variables): Compiled {
    const node = getOperationAST(document, operation.name) as OperationDefinitionNode;
    const compiled = compile({ schema, operation: node, fragments: toFragments(document), variables, errors });
    // For introspection, it holds the parsed document, and nobody asks for that often.
    if (!compiled.hasIntrospection) compilations.set(operation.text, toVariant(operation, variables), compiled);
    return compiled;
  }

  /** Has graphql-js say why variables do not fit, or coerce them if it disagrees. */
  function explainVariables({ name, variables }: Operation, document: DocumentNode, raw: Variables): Variables {
    const { variableDefinitions = [] } = getOperationAST(document, name) as OperationDefinitionNode;
    const sent = variables.filter((one) => Object.hasOwn(raw, one.name));
    const plain = Object.fromEntries(sent.map((one) => [one.name, toPlain(one, raw[one.name])]));
    const { coerced, errors: mistakes = [] } = getVariableValues(schema, variableDefinitions, plain, {
      maxErrors: MAX_ERRORS,
    });
    if (coerced) return coerced;
    const formatted = mistakes.slice(0, MAX_ERRORS).map(({ message, locations, nodes: [node] = [] }) => {
      const variable = node?.kind === Kind.VARIABLE_DEFINITION ? node.variable.name.value : '';
      return errors.variable(message, locations, variable);
    });
    throw new RequestErrors(422, formatted);
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

/** Names one compiled form of an operation. */
function toVariant({ name = '', conditions }: Operation, variables: Variables): string {
  return conditions.length === 0 ? name : `${name} ${conditions.map((one) => String(variables[one])).join()}`;
}

/** The most operations that a message names. */
const MAX_NAMES = 5;

function listNames({ definitions }: DocumentNode): readonly (string | undefined)[] {
  return definitions.flatMap((one) => (one.kind === Kind.OPERATION_DEFINITION ? [one.name?.value] : []));
}

function refuseName(names: readonly (string | undefined)[], name: string | undefined): never {
  const show = (one = 'one without a name'): string => one.slice(0, 40);
  const listed = names.slice(0, MAX_NAMES).map(show);
  if (names.length > MAX_NAMES) listed.push(`${names.length - MAX_NAMES} more`);
  const reason = name === undefined ? 'Choose an operation with operationName' : `There is no operation ${show(name)}`;
  const had = listed.length === 0 ? 'none' : new Intl.ListFormat('en-GB').format(listed);
  throw new StoreError('operation_unresolved', `${reason}: the document has ${had}.`);
}

/** Coerces the variables that a client sent. Undefined if one does not fit. An absent variable has no entry. */
function coerceVariables({ variables }: Operation, raw: Variables): Variables | undefined {
  // Without a prototype, any name is safe.
  const coerced = Object.create(null) as Record<string, unknown>;
  // At the first mistake: a value may have a hundred thousand.
  const stop = (): never => {
    throw new Error('a value does not fit its variable');
  };
  try {
    for (const { name, type, defaultValue } of variables) {
      const sent = Object.hasOwn(raw, name) ? raw[name] : undefined;
      const value = sent === undefined ? defaultValue : coerceInputValue(sent, type, stop);
      if (value !== undefined) coerced[name] = value;
      else if (isNonNullType(type)) return undefined;
    }
    return coerced;
  } catch {
    return undefined;
  }
}

/** IDs and input objects keep numbers as they were written; the other scalars take JavaScript numbers. */
function toPlain({ type }: VariableDefinition, value: unknown): unknown {
  return value instanceof JsonNumber && getNamedType(type).name !== 'ID' ? Number(value.text) : value;
}
