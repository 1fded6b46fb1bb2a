import {
  getOperationAST,
  Kind,
  parse,
  visit,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type OperationDefinitionNode,
  type SelectionSetNode,
  type SourceLocation,
} from 'graphql';

/** The fragments of a document by name. The record has no prototype, so that any name is safe. */
export function toFragments(document: DocumentNode): Record<string, FragmentDefinitionNode> {
  const fragments = Object.create(null) as Record<string, FragmentDefinitionNode>;
  for (const definition of document.definitions) {
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments[definition.name.value] = definition;
  }
  return fragments;
}

/** The operations of a document, in its order. */
export function listOperations(document: DocumentNode): readonly OperationDefinitionNode[] {
  return document.definitions.filter((definition) => definition.kind === Kind.OPERATION_DEFINITION);
}

/** Tells whether an operation asks about the schema only, which needs no key where introspection is on. */
export function isIntrospection(document: DocumentNode, operationName: string | undefined): boolean {
  const operation = getOperationAST(document, operationName);
  return operation != null && listRootFields(document, operation).every(({ name }) => name.value.startsWith('__'));
}

/** The root fields of an operation with its fragments expanded, whatever its directives say. */
function listRootFields(document: DocumentNode, operation: OperationDefinitionNode): readonly FieldNode[] {
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

/**
 * The text of a valid document, which is parsed again when an error has to be worded. Compiled operations keep the text
 * and not the parsed document, which takes a hundred times the memory.
 */
export class DocumentText {
  #document: DocumentNode | undefined;
  #fields: ReadonlyMap<number, FieldNode> | undefined;

  /** @param document - the parsed document, if there is one already */
  constructor(
    readonly text: string,
    document?: DocumentNode,
  ) {
    this.#document = document;
  }

  get document(): DocumentNode {
    return (this.#document ??= parse(this.text));
  }

  /** The field that starts at an offset of the text. */
  fieldAt(start: number): FieldNode {
    return (this.#fields ??= this.#indexFields()).get(start) as FieldNode;
  }

  /** Makes a function that finds the lines and columns of offsets. It reads the text once for all of them. */
  createLocator(): (start: number) => SourceLocation {
    const breaks = Array.from(this.text.matchAll(/\r\n|[\n\r]/g), ({ index, 0: { length } }) => index + length);
    const lineStarts = [0, ...breaks];
    return (start) => {
      const line = lineStarts.findLastIndex((lineStart) => lineStart <= start);
      return { line: line + 1, column: start - (lineStarts[line] as number) + 1 };
    };
  }

  #indexFields(): ReadonlyMap<number, FieldNode> {
    const fields = new Map<number, FieldNode>();
    visit(this.document, {
      [Kind.FIELD]: (field) => {
        if (field.loc) fields.set(field.loc.start, field);
      },
    });
    return fields;
  }
}
