import {
  Kind,
  Lexer,
  parse,
  Source,
  TokenKind,
  type DefinitionNode,
  type DocumentNode,
  type FieldNode,
  type SelectionSetNode,
} from 'graphql';
import { StoreError, type ErrorName } from '../errors.js';
import { isIntrospection, toFragments } from './document.js';

/** How much a document may ask for. */
export interface DocumentLimits {
  readonly maxTokens: number;
  readonly maxLines: number;
  /** Root fields of one operation, fragments expanded. */
  readonly maxRootFields: number;
  /** Values selected below the root fields of one operation, fragments expanded. */
  readonly maxSelectedValues: number;
  /** Values that a response may have: values selected of an object × objects requested. */
  readonly maxResponseValues: number;
}

/** Values below one root field, on average: twice what a fully selected animal has. */
const SELECTED_VALUES = 10;
/** Values of a response for each root field: a hundred animals, fully selected with `__typename` and one alias. */
const RESPONSE_VALUES = 600;

/** The limits that follow from the root fields that an operation may have. */
export function toDocumentLimits(maxRootFields: number): DocumentLimits {
  return {
    maxRootFields,
    // A fully selected, aliased lookup takes 14 tokens, an addition with a variable for each of its inputs some 40.
    maxTokens: 1_000 + 40 * maxRootFields,
    // A lookup takes 6 lines, an addition 12.
    maxLines: 1_000 + 10 * maxRootFields,
    maxSelectedValues: SELECTED_VALUES * Math.max(maxRootFields, 10),
    maxResponseValues: RESPONSE_VALUES * Math.max(maxRootFields, 10),
  };
}

/** Characters of a token, on average: a hundred of the longest names, escaped throughout, are below it. */
const MAX_TOKEN_LENGTH = 40;
/** Operations and fragments in one document. */
const MAX_DEFINITIONS = 200;
/** Fragments within fragments and fields within fields; introspection by the usual tools has some 20. */
const MAX_DEPTH = 40;
/** Selections of one field, repeated ones counted: fragments of many components may each ask for the same. */
const MAX_SELECTIONS = 100;
/**
 * Times that one name may be selected of one field, with a selection of its own and without: comparing them all takes
 * the square of it.
 */
const MAX_REPEATS = 20;
const MAX_LEAF_REPEATS = 50;
/** Selections of introspection in one operation: the fullest query of the usual tools has some 330. */
const MAX_INTROSPECTION = 500;

/**
 * Refuses a document that would take long to validate or select very many values: fragments and aliases multiply, and
 * validation compares every selection with every other. A document that cannot be parsed passes: Apollo Server says
 * what is wrong with it.
 * @throws StoreError `bad_request` if the text is too long or too deep to be parsed, otherwise `unprocessable_request`
 * or `operation_too_large`, saying which limit is exceeded
 */
export function requireSmallDocument(text: string, limits: DocumentLimits): void {
  const fault = findSizeFault(text, limits);
  if (fault !== undefined) throw new StoreError('bad_request', fault);
  const document = parseOrNothing(text, limits);
  if (!document) return;
  if (document.definitions.length > MAX_DEFINITIONS) {
    throw new StoreError('unprocessable_request', `A document may have ${MAX_DEFINITIONS} operations and fragments.`);
  }
  const fragments = toFragments(document);
  for (const definition of document.definitions) requireSmallDefinition(definition, fragments, limits);
}

function requireSmallDefinition(
  definition: DefinitionNode,
  fragments: ReturnType<typeof toFragments>,
  { maxRootFields, maxSelectedValues }: DocumentLimits,
): void {
  if (definition.kind !== Kind.OPERATION_DEFINITION && definition.kind !== Kind.FRAGMENT_DEFINITION) return;
  const isOperation = definition.kind === Kind.OPERATION_DEFINITION;
  const maxSteps = 1_000 + 20 * maxRootFields;
  let steps = 0;
  let introspection = 0;
  let values = 0;
  select(
    definition.selectionSet,
    1,
    isOperation ? maxRootFields : Math.max(maxRootFields, MAX_SELECTIONS),
    isOperation,
  );

  /** Goes through what is selected of one field, and then through what is selected of those. */
  function select(set: SelectionSetNode, depth: number, most: number, isRoot: boolean, isIntrospection = false): void {
    const repeats = new Map<string, number>();
    let count = 0;
    collect(set, depth, (field, at) => {
      const name = (field.alias ?? field.name).value;
      const repeated = (repeats.get(name) ?? 0) + 1;
      repeats.set(name, repeated);
      if (++count > most) {
        throw isRoot ? tooMany('root fields', most) : tooMany('fields of one object', most, 'operation_too_large');
      }
      const maxRepeats = field.selectionSet ? MAX_REPEATS : MAX_LEAF_REPEATS;
      if (repeated > maxRepeats) throw tooMany('fields of one name in one place', maxRepeats);
      if (isIntrospection) {
        if (++introspection > MAX_INTROSPECTION) throw tooMany('introspection fields', MAX_INTROSPECTION);
      } else if (!isRoot && isOperation) {
        if (repeated === 1 && ++values > maxSelectedValues) throw tooManyValues(maxSelectedValues);
      }
      if (field.selectionSet) {
        const isMeta = isIntrospection || (isRoot && field.name.value.startsWith('__'));
        select(field.selectionSet, at + 1, MAX_SELECTIONS, false, isMeta);
      }
    });
  }

  /** Visits the fields of a selection set, its fragments expanded: spreads that double at each level end at `maxSteps`. */
  function collect({ selections }: SelectionSetNode, depth: number, visit: FieldVisitor): void {
    if (depth > MAX_DEPTH) throw tooMany('levels, fragments expanded', MAX_DEPTH);
    for (const selection of selections) {
      if (++steps > maxSteps) throw tooMany('selections, fragments expanded', maxSteps);
      const selected = selection.kind === Kind.FRAGMENT_SPREAD ? fragments[selection.name.value] : selection;
      if (selected?.kind === Kind.FIELD) visit(selected, depth);
      else if (selected) collect(selected.selectionSet, depth + 1, visit);
    }
  }
}

type FieldVisitor = (field: FieldNode, depth: number) => void;

/** Why a text is too long or too deep to be parsed. */
function findSizeFault(text: string, { maxTokens, maxLines }: DocumentLimits): string | undefined {
  const maxLength = MAX_TOKEN_LENGTH * maxTokens;
  if (text.length > maxLength) return `A document may have ${maxLength} characters.`;
  if (hasTooManyLines(text, maxLines)) return `A document may have ${maxLines} lines.`;
  return isTooDeep(text, maxTokens) ? 'The document nests too deeply.' : undefined;
}

function parseOrNothing(text: string, { maxTokens }: DocumentLimits): DocumentNode | undefined {
  try {
    return parse(text, { maxTokens });
  } catch {
    return undefined;
  }
}

function tooMany(what: string, limit: number, code: ErrorName = 'unprocessable_request'): StoreError {
  return new StoreError(code, `An operation may have ${limit} ${what}; this one has more.`);
}

function tooManyValues(limit: number): StoreError {
  return new StoreError('operation_too_large', `An operation may select ${limit} values; this one selects more.`);
}

/** Tells whether a document has more line breaks. graphql-js counts them for each place that an error names. */
function hasTooManyLines(text: string, limit: number): boolean {
  return text.split(/\r\n|[\n\r]/, limit + 2).length > limit + 1;
}

/** Nested brackets in a document: the deepest introspection query of common tools has 15. */
const MAX_BRACKETS = 100;

const OPENING: ReadonlySet<TokenKind> = new Set([TokenKind.BRACE_L, TokenKind.BRACKET_L, TokenKind.PAREN_L]);
const CLOSING: ReadonlySet<TokenKind> = new Set([TokenKind.BRACE_R, TokenKind.BRACKET_R, TokenKind.PAREN_R]);

/**
 * Tells whether a document nests so deeply that a recursive parser could run out of stack. Reads one token more than a
 * document may have at the most.
 */
function isTooDeep(text: string, maxTokens: number): boolean {
  const lexer = new Lexer(new Source(text));
  let depth = 0;
  try {
    for (let count = 0; count <= maxTokens; count += 1) {
      const { kind } = lexer.advance();
      if (OPENING.has(kind)) depth += 1;
      else if (CLOSING.has(kind)) depth -= 1;
      if (depth > MAX_BRACKETS) return true;
      if (kind === TokenKind.EOF) return false;
    }
  } catch {
    // It is no GraphQL: Apollo Server says what is wrong with it.
  }
  return false;
}

/**
 * Tells whether a request asks about the schema only, which needs no key where introspection is on. A document that
 * cannot be parsed asks for nothing, and Apollo Server says what is wrong with it.
 */
export function isIntrospectionText(
  { query, operationName }: { readonly query: string | undefined; readonly operationName: string | undefined },
  limits: DocumentLimits,
): boolean {
  if (query === undefined) return false;
  const document = findSizeFault(query, limits) === undefined ? parseOrNothing(query, limits) : undefined;
  return document === undefined || isIntrospection(document, operationName);
}
