import {
  getNamedType,
  Kind,
  TypeInfo,
  visit,
  visitWithTypeInfo,
  type DocumentNode,
  type GraphQLSchema,
  type OperationDefinitionNode,
} from 'graphql';
import { LOOKUP_SUNSET } from '../pets/sunset.js';
import { toFragments } from './document.js';

/** A deprecated field that an operation uses. */
export interface Deprecation {
  /** Such as `Query.pet`. */
  readonly coordinate: string;
  readonly reason: string;
  /** The day on which the field will be removed, such as `2030-12-05`. */
  readonly sunset?: string;
}

/** The days on which deprecated fields will be removed. SDL has no place for them. */
const SUNSETS: Readonly<Record<string, Date>> = { 'Query.pet': LOOKUP_SUNSET };

/** Finds the deprecated fields that an operation uses, each once. */
export function findDeprecations(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
): readonly Deprecation[] {
  const fragments = toFragments(document);
  const visited = new Set<string>();
  const found = new Map<string, Deprecation>();
  search(operation);
  return [...found.values()];

  function search(definition: OperationDefinitionNode | (typeof fragments)[string]): void {
    const typeInfo = new TypeInfo(schema);
    visit(
      definition,
      visitWithTypeInfo(typeInfo, {
        Field() {
          const parent = typeInfo.getParentType();
          const field = typeInfo.getFieldDef();
          if (parent == null || field?.deprecationReason == null) return;
          const coordinate = `${getNamedType(parent).name}.${field.name}`;
          const sunset = SUNSETS[coordinate]?.toISOString().slice(0, 10);
          found.set(coordinate, {
            coordinate,
            reason: field.deprecationReason,
            ...(sunset !== undefined && { sunset }),
          });
        },
        [Kind.FRAGMENT_SPREAD]: ({ name }) => {
          const fragment = fragments[name.value];
          if (fragment === undefined || visited.has(name.value)) return;
          visited.add(name.value);
          search(fragment);
        },
      }),
    );
  }
}
