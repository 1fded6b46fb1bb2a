import {
  Kind,
  Lexer,
  Source,
  TokenKind,
  type DocumentNode,
  type FieldNode,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { StoreError } from '../errors.js';
import { toFragments } from './operation.js';

/** Fragments within fragments and fields within fields; introspection by the usual tools has some 20. */
const MAX_DEPTH = 40;
/** Selections under one field of the store, repeated ones counted: fragments of many components may each ask for the same. */
const MAX_SELECTIONS = 100;
/** Names under which the fields of one animal may be answered; there are five fields. */
const MAX_NAMES = 20;
/** Selections of introspection in one operation: the fullest query of the usual tools has some 330. */
const MAX_INTROSPECTION = 500;

/**
 * Refuses a valid operation whose answer would be long out of proportion to what it costs: fragments and aliases multiply.
 * @param maxRootFields - root fields that it may have
 * @throws StoreError `bad_request` saying which limit is exceeded
 */
export function requireModestOperation(
  document: DocumentNode,
  operation: OperationDefinitionNode,
  maxRootFields: number,
): void {
  const fragments = toFragments(document);
  const maxSteps = 1_000 + MAX_NAMES * maxRootFields;
  let steps = 0;
  let introspection = 0;
  walk(operation.selectionSet, 1, enterRoot);

  /** Visits the fields of a selection set, its fragments expanded: spreads that double at each level end at `maxSteps`. */
  function walk({ selections }: SelectionSetNode, depth: number, visit: Visitor): void {
    if (depth > MAX_DEPTH) throw tooMuch(`nests deeper than ${MAX_DEPTH} levels, fragments expanded`);
    for (const selection of selections) {
      if (++steps > maxSteps) throw tooMuch(`has more than ${maxSteps} selections, fragments expanded`);
      const definition = selection.kind === Kind.FRAGMENT_SPREAD ? fragments[selection.name.value] : selection;
      if (definition?.kind === Kind.FIELD) visit(definition, depth);
      else if (definition) walk(definition.selectionSet, depth + 1, visit);
    }
  }

  function enterRoot(root: FieldNode, depth: number): void {
    if (!root.selectionSet) return;
    if (root.name.value.startsWith('__')) {
      walk(root.selectionSet, depth + 1, countIntrospection);
      return;
    }
    const names = new Set<string>();
    let selections = 0;
    walk(root.selectionSet, depth + 1, function count({ name, alias, selectionSet }, at) {
      names.add((alias ?? name).value);
      if (names.size > MAX_NAMES) throw tooMuch(`gives one root field more than ${MAX_NAMES} fields and aliases`);
      if (++selections > MAX_SELECTIONS) throw tooMuch(`selects more than ${MAX_SELECTIONS} fields of one root field`);
      if (selectionSet) walk(selectionSet, at + 1, count);
    });
  }

  function countIntrospection({ selectionSet }: FieldNode, depth: number): void {
    if (++introspection > MAX_INTROSPECTION)
      throw tooMuch(`selects more than ${MAX_INTROSPECTION} introspection fields`);
    if (selectionSet) walk(selectionSet, depth + 1, countIntrospection);
  }
}

type Visitor = (field: FieldNode, depth: number) => void;

function tooMuch(does: string): StoreError {
  return new StoreError('bad_request', `The operation ${does}.`);
}

/** How many documents of the most tokens a batch may hold together: twenty that are ten times as large as usual ones. */
const FULL_DOCUMENTS = 2;

/**
 * Refuses a batch whose different documents would take longer to read than one may.
 * @param texts - the documents
 * @param maxTokens - tokens that one document may have
 * @throws StoreError `bad_request`
 */
export function requireModestBatch(texts: readonly (string | undefined)[], maxTokens: number): void {
  const limit = FULL_DOCUMENTS * maxTokens;
  const different = [...new Set(texts)];
  // No token is shorter than a character.
  if (different.reduce((sum, text = '') => sum + text.length, 0) <= limit) return;
  let left = limit;
  for (const text of different) {
    left -= countTokens(text ?? '', left);
    if (left < 0)
      throw new StoreError('bad_request', `The documents of the batch have more than ${limit} tokens together.`);
  }
}

/** Counts the tokens of a document, one more than `limit` at the most. What is no GraphQL ends the count. */
function countTokens(text: string, limit: number): number {
  const lexer = new Lexer(new Source(text));
  let count = 0;
  try {
    while (count <= limit && lexer.advance().kind !== TokenKind.EOF) count += 1;
  } catch {
    // Apollo will say what is wrong with it.
  }
  return count;
}
