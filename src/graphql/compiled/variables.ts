import {
  getNullableType,
  isEnumType,
  isInputObjectType,
  isInputType,
  isNonNullType,
  isScalarType,
  typeFromAST,
  valueFromAST,
  type GraphQLInputType,
  type GraphQLSchema,
  type OperationDefinitionNode,
} from 'graphql';

export type Variables = Record<string, unknown>;

/** The coerced variables of a request in the order of their definitions; undefined for those that are absent. */
export type VariableValues = readonly unknown[];

/** The variables of a compiled operation. */
export interface CompiledVariables {
  readonly names: readonly string[];
  /**
   * Coerces raw variables.
   * @returns undefined when something is wrong with them, or unusual: graphql-js then decides, and words the error
   */
  readonly coerce: (raw: Readonly<Variables>) => VariableValues | undefined;
  /** The values by their names, as graphql-js takes them. */
  readonly toRecord: (values: VariableValues) => Variables;
}

type Coercer = (value: unknown) => unknown;

/** What a coercer returns for a value that graphql-js should look at. */
const UNSURE = Symbol('unsure');

/** Compiles the variable definitions of an operation; undefined when one is of a kind that is left to graphql-js. */
export function compileVariables(
  schema: GraphQLSchema,
  { variableDefinitions = [] }: OperationDefinitionNode,
): CompiledVariables | undefined {
  const definitions: { name: string; isRequired: boolean; fallback: unknown; coerce: Coercer }[] = [];
  for (const { variable, type: typeNode, defaultValue } of variableDefinitions) {
    const name = variable.name.value;
    const type = typeFromAST(schema, typeNode);
    const coerce = isInputType(type) ? compileCoercer(type) : undefined;
    // Every object has something under a name such as `constructor`; nobody calls a variable so.
    if (!isInputType(type) || !coerce || name in Object.prototype) return undefined;
    const fallback = defaultValue && valueFromAST(defaultValue, type);
    definitions.push({ name, isRequired: isNonNullType(type) && !defaultValue, fallback, coerce });
  }
  const names = definitions.map(({ name }) => name);
  return {
    names,
    coerce(raw) {
      const values: unknown[] = [];
      for (const { name, isRequired, fallback, coerce } of definitions) {
        const sent = raw[name];
        if (sent === undefined && isRequired) return undefined;
        const value = sent === undefined ? fallback : coerce(sent);
        if (value === UNSURE) return undefined;
        values.push(value);
      }
      return values;
    },
    toRecord(values) {
      const present = names.flatMap((name, index) => (values[index] === undefined ? [] : [[name, values[index]]]));
      return Object.fromEntries(present) as Variables;
    },
  };
}

function compileCoercer(type: GraphQLInputType): Coercer | undefined {
  const nullable = getNullableType(type);
  const coerce = compileNonNull(nullable);
  if (!coerce) return undefined;
  const onNull = isNonNullType(type) ? UNSURE : null;
  return (value) => (value == null ? onNull : coerce(value));
}

function compileNonNull(type: GraphQLInputType): Coercer | undefined {
  if (isScalarType(type) || isEnumType(type)) {
    return (value) => {
      try {
        return type.parseValue(value) as unknown;
      } catch {
        return UNSURE;
      }
    };
  }
  if (!isInputObjectType(type)) return undefined;
  const fields = Object.values(type.getFields()).map((field) => ({ field, coerce: compileCoercer(field.type) }));
  // Defaults inside input objects are rare; graphql-js knows their rules.
  if (fields.some(({ field, coerce }) => !coerce || field.defaultValue !== undefined)) return undefined;
  const known = new Set(fields.map(({ field }) => field.name));
  return (value) => {
    if (typeof value !== 'object' || Array.isArray(value)) return UNSURE;
    const raw = value as Readonly<Variables>;
    for (const name of Object.keys(raw)) if (!known.has(name)) return UNSURE;
    const coerced: Variables = {};
    for (const { field, coerce } of fields) {
      if (Object.hasOwn(raw, field.name)) {
        const result = (coerce as Coercer)(raw[field.name]);
        if (result === UNSURE) return UNSURE;
        coerced[field.name] = result;
      } else if (isNonNullType(field.type)) return UNSURE;
    }
    return coerced;
  };
}
