import { getNamedType, TypeInfo, visit, visitWithTypeInfo, type DocumentNode, type GraphQLSchema } from 'graphql';
import { LOOKUP_SUNSET } from '../pets/pet.js';

/** A deprecated field that an operation uses. */
export interface Deprecation {
  /** Such as `Query.pet`. */
  readonly coordinate: string;
  readonly reason: string;
  /** The day on which the field will be removed, such as `2030-12-05`. */
  readonly sunset: string | undefined;
}

/** The days on which deprecated fields will be removed. SDL has no place for them. */
const SUNSETS: Readonly<Record<string, Date>> = { 'Query.pet': LOOKUP_SUNSET };

/**
 * Finds the deprecated fields that an operation uses, each once.
 * @param own - the operation with the fragments that it uses
 */
export function findDeprecations(schema: GraphQLSchema, own: DocumentNode): readonly Deprecation[] {
  const found = new Map<string, Deprecation>();
  const typeInfo = new TypeInfo(schema);
  visit(
    own,
    visitWithTypeInfo(typeInfo, {
      Field() {
        const parent = typeInfo.getParentType();
        const field = typeInfo.getFieldDef();
        if (parent == null || field?.deprecationReason == null) return;
        const coordinate = `${getNamedType(parent).name}.${field.name}`;
        const sunset = SUNSETS[coordinate]?.toISOString().slice(0, 10);
        found.set(coordinate, { coordinate, reason: field.deprecationReason, sunset });
      },
    }),
  );
  return [...found.values()];
}
