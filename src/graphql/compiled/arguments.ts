import {
  getArgumentValues,
  isNonNullType,
  Kind,
  Location,
  parse,
  Token,
  valueFromAST,
  visit,
  type FieldNode,
  type GraphQLField,
  type Source,
  type ValueNode,
} from 'graphql';
import type { CompiledVariables, Variables, VariableValues } from './variables.js';

/**
 * Makes the arguments of a field.
 * @throws GraphQLError when one is missing or null that must not be
 */
export type ArgumentMaker = (values: VariableValues) => Readonly<Variables>;

/** Compiles the arguments of a field: constants are made once, plain variables are picked, the rest is left to graphql-js. */
export function compileArguments(
  definition: GraphQLField<unknown, unknown>,
  node: FieldNode,
  variables: CompiledVariables,
): ArgumentMaker {
  const constants: Variables = {};
  const picks: PickedArgument[] = [];
  for (const { name, type, defaultValue } of definition.args) {
    const value = node.arguments?.find((argument) => argument.name.value === name)?.value;
    const isNonNull = isNonNullType(type);
    const isRequired = isNonNull && defaultValue === undefined;
    if (value === undefined || value.kind === Kind.VARIABLE) {
      // The default stands where nothing is said, or only a variable that is absent.
      if (defaultValue !== undefined) constants[name] = defaultValue;
      if (value) picks.push({ name, index: variables.names.indexOf(value.name.value), isNonNull, isRequired });
      else if (isRequired) return leaveToGraphqlJs(definition, withoutTokens(node), variables);
    } else {
      const constant: unknown = hasVariable(value) ? undefined : valueFromAST(value, type);
      if (constant === undefined) return leaveToGraphqlJs(definition, withoutTokens(node), variables);
      constants[name] = constant;
    }
  }
  if (picks.length === 0) return always(constants);
  return pickFrom(constants, picks, wordErrors(definition, node, variables));
}

interface PickedArgument {
  readonly name: string;
  /** The place of its variable. */
  readonly index: number;
  readonly isNonNull: boolean;
  readonly isRequired: boolean;
}

// Functions of their own, so that what they return keeps nothing but what it needs: thousands of them are remembered.

function always(constants: Variables): ArgumentMaker {
  return () => constants;
}

function pickFrom(constants: Variables, picks: readonly PickedArgument[], wordErrorsOf: ArgumentMaker): ArgumentMaker {
  return (values) => {
    const made: Variables = { ...constants };
    for (const { name, index, isNonNull, isRequired } of picks) {
      const value = values[index];
      if (value === undefined ? isRequired : value === null && isNonNull) return wordErrorsOf(values);
      if (value !== undefined) made[name] = value;
    }
    return made;
  };
}

function leaveToGraphqlJs(
  definition: GraphQLField<unknown, unknown>,
  node: FieldNode,
  { toRecord }: CompiledVariables,
): ArgumentMaker {
  return (values) => getArgumentValues(definition, node, toRecord(values));
}

/** Has graphql-js word what is wrong with the arguments. For that the field is read again: to keep it would take more than all the rest. */
function wordErrors(
  definition: GraphQLField<unknown, unknown>,
  { loc }: FieldNode,
  { toRecord }: CompiledVariables,
): ArgumentMaker {
  const { source, start } = loc as Location;
  return (values) => getArgumentValues(definition, readAgain(source).get(start) as FieldNode, toRecord(values));
}

type FieldsByStart = ReadonlyMap<number, FieldNode>;

/** The document that was read again last, kept for this turn of the event loop: all the fields of an operation may be wrong. */
let lastRead: { readonly source: Source; readonly fields: FieldsByStart } | undefined;

function readAgain(source: Source): FieldsByStart {
  if (lastRead?.source === source) return lastRead.fields;
  const fields = new Map<number, FieldNode>();
  visit(parse(source), {
    [Kind.FIELD]: (field) => {
      if (field.loc) fields.set(field.loc.start, field);
    },
  });
  lastRead = { source, fields };
  setImmediate(() => {
    lastRead = undefined;
  });
  return fields;
}

/** A copy that knows its place in the text, for errors, by tokens of its own: those of the parser are linked, and keep the whole document. */
function withoutTokens(node: FieldNode): FieldNode {
  return visit(
    { ...node, selectionSet: undefined },
    {
      enter: (entered) => {
        if (!entered.loc) return undefined;
        const { startToken, endToken, source } = entered.loc;
        return { ...entered, loc: new Location(unlinked(startToken), unlinked(endToken), source) };
      },
    },
  );
}

function unlinked({ kind, start, end, line, column }: Token): Token {
  return new Token(kind, start, end, line, column);
}

function hasVariable(node: ValueNode): boolean {
  switch (node.kind) {
    case Kind.VARIABLE:
      return true;
    case Kind.LIST:
      return node.values.some(hasVariable);
    case Kind.OBJECT:
      return node.fields.some(({ value }) => hasVariable(value));
    default:
      return false;
  }
}
