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

/**
 * Coerces raw variables.
 * @returns undefined when something is wrong with them, or unusual: graphql-js then decides, and words the error
 */
export type VariableCoercer = (raw: Readonly<Variables>) => Variables | undefined;

type Coercer = (value: unknown) => unknown;

/** What a coercer returns for a value that graphql-js should look at. */
const UNSURE = Symbol('unsure');

/** Compiles the variable definitions of an operation; undefined when one is of a kind that is left to graphql-js. */
export function compileVariables(
  schema: GraphQLSchema,
  { variableDefinitions = [] }: OperationDefinitionNode,
): VariableCoercer | undefined {
  const definitions: { name: string; isRequired: boolean; fallback: unknown; coerce: Coercer }[] = [];
  for (const { variable, type: typeNode, defaultValue } of variableDefinitions) {
    const type = typeFromAST(schema, typeNode);
    const coerce = isInputType(type) ? compileCoercer(type) : undefined;
    if (!isInputType(type) || !coerce) return undefined;
    const fallback = defaultValue && valueFromAST(defaultValue, type);
    definitions.push({ name: variable.name.value, isRequired: isNonNullType(type) && !defaultValue, fallback, coerce });
  }
  return (raw) => {
    const coerced: Variables = Object.create(null) as Variables;
    for (const { name, isRequired, fallback, coerce } of definitions) {
      if (Object.hasOwn(raw, name)) {
        const value = coerce(raw[name]);
        if (value === UNSURE) return undefined;
        coerced[name] = value;
      } else if (isRequired) return undefined;
      else if (fallback !== undefined) coerced[name] = fallback;
    }
    return coerced;
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
