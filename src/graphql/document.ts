import {
  getOperationAST,
  Kind,
  parse,
  visit,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type OperationDefinitionNode,
  type SourceLocation,
} from 'graphql';
import { StoreError } from '../errors.js';

/** The fragments of a document by name. The record has no prototype, so that any name is safe. */
export function toFragments(document: DocumentNode): Record<string, FragmentDefinitionNode> {
  const fragments = Object.create(null) as Record<string, FragmentDefinitionNode>;
  for (const definition of document.definitions) {
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments[definition.name.value] = definition;
  }
  return fragments;
}

/** The names of a document's operations, in its order; undefined for an operation without a name. */
export function listOperationNames({ definitions }: DocumentNode): readonly (string | undefined)[] {
  return definitions.flatMap((one) => (one.kind === Kind.OPERATION_DEFINITION ? [one.name?.value] : []));
}

/** The most operations that a message names, and characters of each name. */
const MAX_NAMES = 5;
const MAX_NAME_LENGTH = 40;

/**
 * The name of the operation that a request asks for: an only operation need not be named.
 * @param names - those of the document's operations
 * @throws StoreError `operation_unresolved`
 */
export function chooseOperation(names: readonly (string | undefined)[], name: string | undefined): string | undefined {
  if (name === undefined ? names.length === 1 : names.includes(name)) return name ?? names[0];
  const listed = names.slice(0, MAX_NAMES).map((one = 'one without a name') => one.slice(0, MAX_NAME_LENGTH));
  if (names.length > MAX_NAMES) listed.push(`${names.length - MAX_NAMES} more`);
  const reason =
    name === undefined
      ? 'Choose an operation with operationName'
      : `There is no operation ${name.slice(0, MAX_NAME_LENGTH)}`;
  const had = listed.length === 0 ? 'none' : new Intl.ListFormat('en-GB').format(listed);
  throw new StoreError('operation_unresolved', `${reason}: the document has ${had}.`);
}

/** The operation of a valid document that has the name, or that has none. */
export function getOperation(document: DocumentNode, name: string | undefined): OperationDefinitionNode {
  return getOperationAST(document, name) as OperationDefinitionNode;
}

/**
 * Tells whether an operation asks about the schema only, which needs no key where introspection is on. A document that
 * cannot be parsed asks for nothing.
 */
export function isIntrospection(text: string, operationName: string | undefined, maxTokens: number): boolean {
  let document: DocumentNode;
  try {
    document = parse(text, { maxTokens });
  } catch {
    return true;
  }
  const operation = getOperationAST(document, operationName);
  if (!operation) return false;
  const fragments = toFragments(document);
  const visited = new Set<string>();
  let isMeta = true;
  visit(operation, {
    [Kind.FIELD]: ({ name }) => {
      isMeta &&= name.value.startsWith('__');
      return false;
    },
    // Puts the fragment in the place of its first spread. It may be unknown or in a cycle: the document need not be valid.
    [Kind.FRAGMENT_SPREAD]: ({ name: { value: name } }) => {
      if (visited.has(name)) return undefined;
      visited.add(name);
      return fragments[name];
    },
  });
  return isMeta;
}

/**
 * The text of a valid document, which is parsed again when an error has to be worded. Compiled operations keep the text
 * and not the parsed document, which takes a hundred times the memory.
 */
export class DocumentSource {
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
