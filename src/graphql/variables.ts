import {
  coerceInputValue,
  getNamedType,
  getVariableValues,
  isNonNullType,
  typeFromAST,
  valueFromAST,
  type GraphQLInputType,
  type GraphQLSchema,
  type OperationDefinitionNode,
} from 'graphql';
import { JsonNumber } from '../json/exact-json.js';
import { getOperation, type DocumentSource } from './document.js';
import { MAX_ERRORS } from './errors.js';

export type Variables = Record<string, unknown>;

/** A variable of a prepared operation. */
export interface VariableDefinition {
  readonly name: string;
  readonly type: GraphQLInputType;
  /** Coerced; undefined when the variable has no default. */
  readonly defaultValue: unknown;
}

/** Reads the variable definitions of a valid operation. The result keeps nothing of the document. */
export function readVariableDefinitions(
  schema: GraphQLSchema,
  { variableDefinitions = [] }: OperationDefinitionNode,
): readonly VariableDefinition[] {
  return variableDefinitions.map(({ variable, type: typeNode, defaultValue }) => {
    const type = typeFromAST(schema, typeNode) as GraphQLInputType;
    return { name: variable.name.value, type, defaultValue: defaultValue && valueFromAST(defaultValue, type) };
  });
}

/**
 * Coerces the variables that a client sent. An absent variable has no entry in the result, whose record has no
 * prototype, so that any name is safe. If a value does not fit, graphql-js does all of it again: `getVariableValues`
 * words the errors, but takes the parsed document and five times as long.
 * @throws AggregateError of GraphQLErrors
 */
export function coerceVariables(
  schema: GraphQLSchema,
  { name: operationName, variables }: { name: string | undefined; variables: readonly VariableDefinition[] },
  raw: Readonly<Variables>,
  source: DocumentSource,
): Readonly<Variables> {
  const coerced = Object.create(null) as Variables;
  try {
    for (const { name, type, defaultValue } of variables) {
      const sent = Object.hasOwn(raw, name) ? raw[name] : undefined;
      const value = sent === undefined ? defaultValue : coerceInputValue(sent, type, refuseValue);
      if (value !== undefined) coerced[name] = value;
      else if (isNonNullType(type)) refuseValue();
    }
    return coerced;
  } catch {
    const { variableDefinitions = [] } = getOperation(source.document, operationName);
    const plain = unwrapNumbers(raw, variables);
    const result = getVariableValues(schema, variableDefinitions, plain, { maxErrors: MAX_ERRORS });
    if (!result.coerced) throw new AggregateError(result.errors);
    return result.coerced;
  }
}

function refuseValue(): never {
  throw new Error('a value does not fit its variable');
}

/** Numbers that were kept as written are for IDs and input objects; the other scalars want JavaScript numbers. */
function unwrapNumbers(raw: Readonly<Variables>, definitions: readonly VariableDefinition[]): Readonly<Variables> {
  const plain = { ...raw };
  for (const { name, type } of definitions) {
    const value = plain[name];
    if (value instanceof JsonNumber && getNamedType(type).name !== 'ID') plain[name] = Number(value.text);
  }
  return plain;
}
