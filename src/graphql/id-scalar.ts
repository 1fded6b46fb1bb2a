import { GraphQLError, GraphQLID, Kind, type ValueNode } from 'graphql';
import { JsonNumber } from '../json/exact-json.js';

const NO_SCALAR = 'An ID must be a whole number such as "42", got a name, a list or an object.';

/**
 * How this program reads an ID: as the text that was written, whatever scalar it was.
 *
 * The built-in ID rounds large JSON numbers and refuses fractions and booleans for the whole operation. Here every
 * scalar comes through as its text, so that the field itself can refuse what is no int64, with its siblings' data in
 * place.
 */
export const ID = {
  __serialize: (value: unknown): unknown => (typeof value === 'string' ? value : GraphQLID.serialize(value)),
  __parseValue(value: unknown): string {
    if (typeof value === 'string') return value;
    if (typeof value === 'number' || typeof value === 'boolean' || value instanceof JsonNumber) return String(value);
    throw new GraphQLError(NO_SCALAR);
  },
  __parseLiteral(node: ValueNode): string {
    switch (node.kind) {
      case Kind.STRING:
      case Kind.INT:
      case Kind.FLOAT:
        return node.value;
      case Kind.BOOLEAN:
        return String(node.value);
      default:
        throw new GraphQLError(NO_SCALAR, { nodes: node });
    }
  },
};
