import {
  coerceInputValue,
  getNamedType,
  getVariableValues,
  isNonNullType,
  Kind,
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
import { JsonNumber } from '../json/exact-json.js';
import type { ApolloValidation } from './apollo.js';
import {
  compileFields,
  inspect,
  requireType,
  toFragments,
  type Inspection,
  type RootField,
  type Variables,
} from './compile.js';
import { MAX_ERRORS, RequestErrors, type ErrorFormatter } from './errors.js';
import { requireSmallDocument, type DocumentBudget, type DocumentLimits } from './limits.js';
import type { OperationRequest } from './request.js';
import type { TrustedDocuments } from './trusted.js';

/** A variable of an operation. */
interface VariableDefinition {
  readonly name: string;
  readonly type: GraphQLInputType;
  /** Undefined if the variable has no default. */
  readonly defaultValue: unknown;
}

/** An operation of a valid document. */
export interface PreparedOperation extends Inspection {
  readonly type: 'query' | 'mutation';
  readonly name: string | undefined;
  /** The text of its document. */
  readonly text: string;
  /** Whether its document is in the manifest, so that its name may be a label of metrics. */
  readonly isTrusted: boolean;
  readonly variables: readonly VariableDefinition[];
}

/** A valid operation with its variables. */
export interface Prepared {
  readonly operation: PreparedOperation;
  readonly fields: readonly RootField[];
  readonly variables: Variables;
}

/** Who asks, and how. */
export interface Asker {
  readonly method: string;
  /** Who pays for new documents. */
  readonly caller: string;
}

export interface PrepareOptions {
  readonly schema: GraphQLSchema;
  /** Has Apollo Server parse and validate a document. @throws RequestErrors */
  readonly validate: ApolloValidation;
  readonly trusted: Pick<TrustedDocuments, 'has'>;
  readonly limits: DocumentLimits;
  readonly errors: ErrorFormatter;
  readonly budget: DocumentBudget;
}

/** The bounds of the cache: entries, and characters of the documents that they are of. */
const MAX_ENTRIES = 5_000;
const MAX_CHARACTERS = 400_000;

/** Creates the first step of an operation. Only what is new is parsed, validated and compiled. */
export function createPrepare({ schema, validate, trusted, limits, errors, budget }: PrepareOptions) {
  const operations = createCache<PreparedOperation>();
  /** Root fields, as the conditions of `@skip` and `@include` leave them. */
  const compiled = createCache<readonly RootField[]>();

  return {
    prepare,
    prepareAhead,
    forgetTrusted: () => [operations, compiled].forEach((cache) => cache.trusted.clear()),
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
    const operation = budget.spend(asker.caller, () => addOperation(query, document, request.operationName));
    return complete(operation, document, request, asker);
  }

  /** Prepares the operations of a document before anybody asks for them. @throws RequestErrors, StoreError */
  async function prepareAhead(query: string): Promise<void> {
    const document = await check(query);
    for (const name of listNames(document)) {
      const operation = addOperation(query, document, name);
      if (operation.conditions.length === 0) findFields(operation, document, {});
    }
  }

  function check(query: string): Promise<DocumentNode> {
    requireSmallDocument(query, limits);
    return validate(query);
  }

  function addOperation(text: string, document: DocumentNode, name: string | undefined): PreparedOperation {
    const node = getOperation(document, chooseOperation(listNames(document), name));
    const operation: PreparedOperation = {
      type: requireType(schema, node),
      name: node.name?.value,
      text,
      isTrusted: trusted.has(text),
      variables: node.variableDefinitions?.map(toVariableDefinition) ?? [],
      ...inspect(schema, node, toFragments(document)),
    };
    // graphql-js keeps the parsed document for introspection, which nobody asks for often.
    if (!operation.hasIntrospection) operations.set(text, name ?? '', operation);
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
    operation: PreparedOperation,
    document: DocumentNode | undefined,
    request: OperationRequest,
    { method, caller }: Asker,
  ): Prepared {
    if (method !== 'POST' && operation.type !== 'query') {
      const reason = `${method} runs queries only: send a mutation by POST.`;
      throw new StoreError('method_not_allowed', reason, { headers: { Allow: 'POST' }, graphqlOnly: true });
    }
    const variables =
      coerceVariables(operation, request.variables ?? {}) ??
      explainVariables(operation, document ?? parse(operation.text), request.variables ?? {});
    const fields =
      compiled.find(operation.text, toVariant(operation, variables)) ??
      budget.spend(caller, () => findFields(operation, document ?? parse(operation.text), variables));
    return { operation, fields, variables };
  }

  function findFields(operation: PreparedOperation, document: DocumentNode, variables: Variables) {
    const node = getOperation(document, operation.name);
    const fields = compileFields({ schema, operation: node, fragments: toFragments(document), variables, errors });
    if (!operation.hasIntrospection) compiled.set(operation.text, toVariant(operation, variables), fields);
    return fields;
  }

  /** Has graphql-js say why variables do not fit. Usually throws, but graphql-js decides. */
  function explainVariables({ name, variables }: PreparedOperation, document: DocumentNode, raw: Variables): Variables {
    const { variableDefinitions = [] } = getOperation(document, name);
    const plain = Object.fromEntries(
      variables.flatMap((definition) => (Object.hasOwn(raw, definition.name) ? [toPlain(definition, raw)] : [])),
    );
    const result = getVariableValues(schema, variableDefinitions, plain, { maxErrors: MAX_ERRORS });
    if (result.coerced) return result.coerced;
    const formatted = result.errors.slice(0, MAX_ERRORS).map(({ message, locations, nodes: [node] = [] }) => {
      const variable = node?.kind === Kind.VARIABLE_DEFINITION ? node.variable.name.value : '';
      return errors.variable(message, locations, variable);
    });
    throw new RequestErrors(422, formatted);
  }

  function createCache<Value extends object>() {
    const own = new Map<string, Value>();
    const others = new LRUCache<string, Value>({
      max: MAX_ENTRIES,
      maxSize: MAX_CHARACTERS,
      sizeCalculation: (_, key) => key.length + 1,
    });
    const toKey = (text: string, part: string): string => (part === '' ? text : `${text}\n${part}`);
    return {
      /** Those of trusted documents, which no others push out. */
      trusted: own,
      find: (text: string, part: string) => (trusted.has(text) ? own : others).get(toKey(text, part)),
      set: (text: string, part: string, value: Value) =>
        void (trusted.has(text) ? own : others).set(toKey(text, part), value),
    };
  }
}

export type Prepare = ReturnType<typeof createPrepare>;

/** Names one compiled form of an operation. */
function toVariant({ name = '', conditions }: PreparedOperation, variables: Variables): string {
  return conditions.length === 0 ? name : `${name} ${conditions.map((one) => String(variables[one])).join()}`;
}

/** The most operations that a message names, and characters of each name. */
const MAX_NAMES = 5;
const MAX_NAME_LENGTH = 40;

/** The names of a document's operations; undefined for an operation without a name. */
function listNames({ definitions }: DocumentNode): readonly (string | undefined)[] {
  return definitions.flatMap((one) => (one.kind === Kind.OPERATION_DEFINITION ? [one.name?.value] : []));
}

/**
 * Returns the name of the operation that a request asks for: an only operation need not be named.
 * @throws StoreError `operation_unresolved`
 */
function chooseOperation(names: readonly (string | undefined)[], name: string | undefined): string | undefined {
  if (name === undefined ? names.length === 1 : names.includes(name)) return name ?? names[0];
  const listed = names.slice(0, MAX_NAMES).map((one = 'one without a name') => one.slice(0, MAX_NAME_LENGTH));
  if (names.length > MAX_NAMES) listed.push(`${names.length - MAX_NAMES} more`);
  const reason =
    name === undefined
      ? 'Choose an operation with operationName'
      : `There is no operation ${name.slice(0, MAX_NAME_LENGTH)}`;
  const had = listed.length === 0 ? 'none' : new Intl.ListFormat('en-GB').format(listed);
  throw new StoreError('operation_unresolved', `${reason}: the document has ${had}.`);
}

function getOperation({ definitions }: DocumentNode, name: string | undefined): OperationDefinitionNode {
  return definitions.find(
    (one) => one.kind === Kind.OPERATION_DEFINITION && one.name?.value === name,
  ) as OperationDefinitionNode;
}

/** Coerces the variables that a client sent. Undefined if one does not fit. An absent variable has no entry. */
function coerceVariables({ variables }: PreparedOperation, raw: Variables): Variables | undefined {
  // Without a prototype, any name is safe.
  const coerced = Object.create(null) as Record<string, unknown>;
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

/** Ends the coercion of a value at its first mistake: it may have a hundred thousand. */
function stop(): never {
  throw new Error('a value does not fit its variable');
}

/** IDs and input objects keep numbers as they were written; the other scalars take JavaScript numbers. */
function toPlain({ name, type }: VariableDefinition, raw: Variables): readonly [string, unknown] {
  const value = raw[name];
  return [name, value instanceof JsonNumber && getNamedType(type).name !== 'ID' ? Number(value.text) : value];
}
