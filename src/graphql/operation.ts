import {
  getOperationAST,
  Kind,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLResolveInfo,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { collectFields } from 'graphql/execution/collectFields.js';

/**
 * The most tokens of a document. A fully selected, aliased lookup takes 14, an addition with a variable for each of its inputs
 * some 40.
 * @param maxRootFields - root fields that an operation may have
 */
export function toMaxTokens(maxRootFields: number): number {
  return 1_000 + 40 * maxRootFields;
}

/** Levels of brackets in a document at the most: the deepest introspection query of the usual tools has 15. */
const MAX_DEPTH = 100;

/**
 * Tells whether a document nests so deeply that the recursion of a parser could run out of stack. Brackets within strings
 * and comments do not count. Takes one pass, whatever the text.
 */
export function isTooDeep(text: string): boolean {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    switch (text.charAt(i)) {
      case '{':
      case '[':
      case '(':
        depth += 1;
        if (depth > MAX_DEPTH) return true;
        break;
      case '}':
      case ']':
      case ')':
        depth -= 1;
        break;
      case '"':
        i = endOfString(text, i);
        break;
      case '#':
        i = endOf(text, '\n', i + 1);
        break;
    }
  }
  return false;
}

/** The index of the last character of the string that begins at `start`; that of the text when it has no end. */
function endOfString(text: string, start: number): number {
  if (text.startsWith('"""', start)) {
    let end = endOf(text, '"""', start + 3);
    while (text[end - 3] === '\\') end = endOf(text, '"""', end + 1);
    return end;
  }
  let end = start + 1;
  while (end < text.length && text[end] !== '"' && text[end] !== '\n') end += text[end] === '\\' ? 2 : 1;
  return end;
}

/** The index of the last character of the next `mark`, or of the text. */
function endOf(text: string, mark: string, from: number): number {
  const index = text.indexOf(mark, from);
  return index < 0 ? text.length : index + mark.length - 1;
}

/** The fragments of a document by their names, whatever those are: there is no prototype. */
export function toFragments(document: DocumentNode): Record<string, FragmentDefinitionNode> {
  const fragments = Object.create(null) as Record<string, FragmentDefinitionNode>;
  for (const definition of document.definitions) {
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments[definition.name.value] = definition;
  }
  return fragments;
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

/** The index of a root field among those of its name, in the order in which they are executed. */
export function findPosition({
  schema,
  fragments,
  variableValues,
  parentType,
  operation,
  fieldName,
  path,
}: GraphQLResolveInfo): number {
  const fields = collectFields(schema, fragments, variableValues, parentType, operation.selectionSet);
  const namesakes = [...fields].filter(([, [field]]) => field?.name.value === fieldName);
  return namesakes.findIndex(([responseKey]) => responseKey === path.key);
}
