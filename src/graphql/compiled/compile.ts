import {
  getLocation,
  Kind,
  OperationTypeNode,
  visit,
  type DocumentNode,
  type FieldNode,
  type GraphQLObjectType,
  type GraphQLSchema,
  type OperationDefinitionNode,
} from 'graphql';
import { collectFields, collectSubfields } from 'graphql/execution/collectFields.js';
import type { Deprecation } from '../deprecations.js';
import { toFragments } from '../operation.js';
import { compileArguments, type ArgumentMaker } from './arguments.js';
import { compilePetWriter, type PetWriter } from './pet-writer.js';
import { compileVariables, type CompiledVariables } from './variables.js';

/** A root field of a compiled operation, in response order. */
export type CompiledField = {
  readonly responseKey: string;
  /** How the field begins in the JSON text of the data. */
  readonly prefix: string;
  /** Where the field stands in the document, for errors. */
  readonly locations: readonly { readonly line: number; readonly column: number }[];
} & (
  | { readonly kind: 'typename'; readonly text: string }
  | { readonly kind: 'pets' | 'pet' | 'addPet'; readonly makeArguments: ArgumentMaker; readonly writer: PetWriter }
);

/** A validated operation, ready to be priced and run without walking its document again. */
export interface CompiledOperation {
  readonly type: 'query' | 'mutation';
  readonly name: string | undefined;
  readonly variables: CompiledVariables;
  readonly fields: readonly CompiledField[];
  readonly deprecations: readonly Deprecation[];
}

export interface OperationToCompile {
  readonly schema: GraphQLSchema;
  readonly document: DocumentNode;
  readonly operation: OperationDefinitionNode;
  readonly deprecations: readonly Deprecation[];
}

/**
 * Compiles an operation that has been validated.
 * @returns undefined for what graphql-js executes: directives, introspection, the rateLimit field, unusual variables
 */
export function compileOperation({
  schema,
  document,
  operation,
  deprecations,
}: OperationToCompile): CompiledOperation | undefined {
  const rootType = schema.getRootType(operation.operation);
  if (rootType == null || operation.operation === OperationTypeNode.SUBSCRIPTION || hasDirectives(document))
    return undefined;
  const variables = compileVariables(schema, operation);
  if (!variables) return undefined;

  const fragments = toFragments(document);
  const roots = collectFields(schema, fragments, {}, rootType, operation.selectionSet);
  const fields: CompiledField[] = [];
  for (const [responseKey, nodes] of roots) {
    const field = compileField(responseKey, nodes, variables);
    if (!field) return undefined;
    fields.push(field);
  }
  return { type: operation.operation, name: operation.name?.value, variables, fields, deprecations };

  function compileField(
    responseKey: string,
    nodes: readonly FieldNode[],
    compiledVariables: CompiledVariables,
  ): CompiledField | undefined {
    const [node] = nodes as [FieldNode];
    const { value: name } = node.name;
    const place = { responseKey, prefix: `"${responseKey}":`, locations: nodes.flatMap(locate) };
    if (name === '__typename')
      return { ...place, kind: 'typename', text: JSON.stringify((rootType as GraphQLObjectType).name) };
    if (name !== 'pets' && name !== 'pet' && name !== 'addPet') return undefined;
    const definition = (rootType as GraphQLObjectType).getFields()[name];
    const petType = schema.getType('Pet') as GraphQLObjectType;
    const writer = compilePetWriter(collectSubfields(schema, fragments, {}, petType, [...nodes]));
    if (!definition || !writer) return undefined;
    return { ...place, kind: name, makeArguments: compileArguments(definition, node, compiledVariables), writer };
  }
}

function hasDirectives(document: DocumentNode): boolean {
  let found = false;
  visit(document, {
    [Kind.DIRECTIVE]: () => {
      found = true;
    },
  });
  return found;
}

function locate({ loc }: FieldNode): { line: number; column: number }[] {
  return loc ? [getLocation(loc.source, loc.start)] : [];
}
