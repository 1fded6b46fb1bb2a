import {
  getNullableType,
  getVariableValues,
  type GraphQLError,
  isEnumType,
  isInputObjectType,
  isNonNullType,
  isScalarType,
  Kind,
  typeFromAST,
  valueFromAST,
  type GraphQLInputType,
  type GraphQLSchema,
  type OperationDefinitionNode,
  type TypeNode,
} from 'graphql';
import { JsonNumber } from '../json/exact-json.js';
import { getOperation, type DocumentSource } from './document.js';
import { MAX_ERRORS } from './errors.js';

export type Variables = Record<string, unknown>;

/** The coerced variables of a request in the order of their definitions; undefined for those that are absent. */
export type VariableValues = readonly unknown[];

/** The variables of a compiled operation. */
export interface CompiledVariables {
  readonly names: readonly string[];
  /**
   * Coerces the variables that a client sent. Anything unusual is left to graphql-js, which also words the errors.
   * @throws VariableErrors
   */
  readonly coerce: (raw: Readonly<Variables>, source: DocumentSource) => VariableValues;
  /** The values by name, as graphql-js takes them. */
  readonly toRecord: (values: VariableValues) => Variables;
}

/** The variables do not fit their definitions. */
export class VariableErrors extends Error {
  constructor(readonly errors: readonly GraphQLError[]) {
    super('The variables do not fit their definitions.');
  }
}

type Coercer = (value: unknown) => unknown;

/** What a coercer returns for a value that graphql-js should look at. */
const UNCOMPILED = Symbol('uncompiled');

interface Definition {
  readonly name: string;
  readonly isRequired: boolean;
  readonly fallback: unknown;
  readonly coerce: Coercer;
}

/** Compiles the variable definitions of an operation. */
export function compileVariables(
  schema: GraphQLSchema,
  { name, variableDefinitions = [] }: OperationDefinitionNode,
): CompiledVariables {
  const definitions = variableDefinitions.map(({ variable, type: typeNode, defaultValue }): Definition => {
    const type = typeFromAST(schema, typeNode) as GraphQLInputType;
    return {
      name: variable.name.value,
      isRequired: isNonNullType(type) && !defaultValue,
      fallback: defaultValue && valueFromAST(defaultValue, type),
      coerce: compileCoercer(type),
    };
  });
  return toCompiledVariables(schema, name?.value, definitions);
}

/** A function of its own, so that what is returned keeps nothing of the document. */
function toCompiledVariables(
  schema: GraphQLSchema,
  operationName: string | undefined,
  definitions: readonly Definition[],
): CompiledVariables {
  const names = definitions.map(({ name }) => name);
  return {
    names,
    coerce(raw, source) {
      const values: unknown[] = [];
      for (const { name, isRequired, fallback, coerce } of definitions) {
        const sent = Object.hasOwn(raw, name) ? raw[name] : undefined;
        const value = sent === undefined ? (isRequired ? UNCOMPILED : fallback) : coerce(sent);
        if (value === UNCOMPILED) return coerceWithGraphqlJs(schema, source, operationName, names, raw);
        values.push(value);
      }
      return values;
    },
    toRecord(values) {
      const record: Variables = {};
      names.forEach((name, index) => {
        if (values[index] !== undefined) record[name] = values[index];
      });
      return record;
    },
  };
}

function coerceWithGraphqlJs(
  schema: GraphQLSchema,
  source: DocumentSource,
  operationName: string | undefined,
  names: readonly string[],
  raw: Readonly<Variables>,
): VariableValues {
  const { variableDefinitions: definitions = [] } = getOperation(source.document, operationName);
  const { coerced, errors } = getVariableValues(schema, definitions, unwrapNumbers(raw, definitions), {
    maxErrors: MAX_ERRORS,
  });
  if (!coerced) throw new VariableErrors(errors);
  return names.map((name) => coerced[name]);
}

/** Numbers that were kept as written are for IDs and input objects; the other scalars want JavaScript numbers. */
function unwrapNumbers(
  variables: Readonly<Variables>,
  definitions: NonNullable<OperationDefinitionNode['variableDefinitions']>,
): Variables {
  const plain = Object.entries(variables).map(([name, value]) => {
    if (!(value instanceof JsonNumber)) return [name, value];
    const definition = definitions.find(({ variable }) => variable.name.value === name);
    return [name, definition && nameOf(definition.type) === 'ID' ? value : Number(value.text)];
  });
  return Object.fromEntries(plain) as Variables;
}

/** The name of a type without its lists and exclamation marks. */
export function nameOf(type: TypeNode): string {
  return type.kind === Kind.NAMED_TYPE ? type.name.value : nameOf(type.type);
}

function compileCoercer(type: GraphQLInputType): Coercer {
  const coerce = compileNullable(getNullableType(type));
  const onNull = isNonNullType(type) ? UNCOMPILED : null;
  return (value) => (value === null ? onNull : coerce(value));
}

function compileNullable(type: GraphQLInputType): Coercer {
  if (isScalarType(type) || isEnumType(type)) {
    return (value) => {
      try {
        return type.parseValue(value) as unknown;
      } catch {
        return UNCOMPILED;
      }
    };
  }
  if (!isInputObjectType(type)) return () => UNCOMPILED;
  const fields = Object.values(type.getFields()).map((field) => ({ field, coerce: compileCoercer(field.type) }));
  const known = new Set(fields.map(({ field }) => field.name));
  // Defaults inside input objects are rare; graphql-js knows their rules.
  if (fields.some(({ field }) => field.defaultValue !== undefined)) return () => UNCOMPILED;
  return (value) => {
    if (typeof value !== 'object' || Array.isArray(value)) return UNCOMPILED;
    const raw = value as Readonly<Variables>;
    for (const name of Object.keys(raw)) if (!known.has(name)) return UNCOMPILED;
    const coerced: Variables = {};
    for (const { field, coerce } of fields) {
      if (Object.hasOwn(raw, field.name)) {
        const result = coerce(raw[field.name]);
        if (result === UNCOMPILED) return UNCOMPILED;
        coerced[field.name] = result;
      } else if (isNonNullType(field.type)) return UNCOMPILED;
    }
    return coerced;
  };
}
