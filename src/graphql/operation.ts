import {
  getOperationAST,
  Kind,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';

/** The most tokens of a document: a hundred fully selected, aliased lookups are some 1,500. */
export const MAX_TOKENS = 10_000;

/** Levels of brackets in a document at the most: the deepest introspection query of the usual tools has 15. */
const MAX_DEPTH = 100;

/**
 * Tells whether a document nests so deeply that the recursion of a parser could run out of stack. Brackets within strings
 * and comments do not count.
 */
export function isTooDeep(text: string): boolean {
  let depth = 0;
  for (const [token] of text.matchAll(BRACKETS_AND_TEXTS)) {
    if (token === '{' || token === '[' || token === '(') depth += 1;
    else if (token === '}' || token === ']' || token === ')') depth -= 1;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}

const BRACKETS_AND_TEXTS = /[{}[\]()]|\"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\"|"(?:[^"\\\n]|\\.)*"|#.*/g;

/** The fragments of a document by their names. */
export function toFragments(document: DocumentNode): Record<string, FragmentDefinitionNode> {
  return Object.fromEntries(
    document.definitions.flatMap((definition) =>
      definition.kind === Kind.FRAGMENT_DEFINITION ? [[definition.name.value, definition] as const] : [],
    ),
  );
}

/** The root fields of an operation with its fragments expanded, whatever their directives say. */
export function listRootFields(document: DocumentNode, operation: OperationDefinitionNode): readonly FieldNode[] {
  const fragments = toFragments(document);
  const visited = new Set<string>();
  return collect(operation.selectionSet);

  function collect({ selections }: SelectionSetNode): readonly FieldNode[] {
    return selections.flatMap((selection) => {
      switch (selection.kind) {
        case Kind.FIELD:
          return [selection];
        case Kind.INLINE_FRAGMENT:
          return collect(selection.selectionSet);
        case Kind.FRAGMENT_SPREAD: {
          const { value: name } = selection.name;
          const fragment = fragments[name];
          if (fragment === undefined || visited.has(name)) return [];
          visited.add(name);
          return collect(fragment.selectionSet);
        }
      }
    });
  }
}

/** Tells whether an operation asks about the schema alone, which needs no key where introspection is on. */
export function isIntrospection(document: DocumentNode, operationName: string | undefined): boolean {
  const operation = getOperationAST(document, operationName);
  return operation != null && listRootFields(document, operation).every(({ name }) => name.value.startsWith('__'));
}
