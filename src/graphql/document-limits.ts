import { Kind, parse, type DefinitionNode, type DocumentNode, type FieldNode, type SelectionSetNode } from 'graphql';
import type { Account, Admission, WindowState } from '../access/ledger.js';
import { secondsUntil } from '../access/refusals.js';
import { monotonicNow } from '../clock.js';
import { StoreError, type ErrorName } from '../errors.js';
import { toFragments } from './document.js';

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
/** Nested brackets: the deepest introspection query of common tools has 15, and a recursive parser could run out of stack. */
const MAX_BRACKETS = 100;
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
  const { maxTokens, maxLines } = limits;
  const maxLength = MAX_TOKEN_LENGTH * maxTokens;
  if (text.length > maxLength) throw new StoreError('bad_request', `A document may have ${maxLength} characters.`);
  // graphql-js counts the lines for each place that an error names.
  if (text.split(/\r\n|[\n\r]/, maxLines + 2).length > maxLines + 1) {
    throw new StoreError('bad_request', `A document may have ${maxLines} lines.`);
  }
  if (isTooDeep(text, maxTokens + maxLines)) throw new StoreError('bad_request', 'The document nests too deeply.');
  let document: DocumentNode;
  try {
    document = parse(text, { maxTokens });
  } catch {
    return;
  }
  if (document.definitions.length > MAX_DEFINITIONS) {
    throw new StoreError('unprocessable_request', `A document may have ${MAX_DEFINITIONS} operations and fragments.`);
  }
  const fragments = toFragments(document);
  for (const definition of document.definitions) requireSmallDefinition(definition, fragments, limits);
}

/** A block string, a string, a comment or a bracket. What is not closed is matched, too, so that no text takes long. */
const BRACKET_OR_TEXT = /"""(?:\\"""|[^])*?(?:"""|$)|"(?:\\.|[^"\\\n\r])*"?|#[^\n\r]*|[[\](){}]/g;

/** @param maxMatches - the parser comes no further than that */
function isTooDeep(text: string, maxMatches: number): boolean {
  let depth = 0;
  let count = 0;
  for (const [match] of text.matchAll(BRACKET_OR_TEXT)) {
    if ('[({'.includes(match)) depth += 1;
    else if ('])}'.includes(match)) depth -= 1;
    if (depth > MAX_BRACKETS) return true;
    if (++count > maxMatches) return false;
  }
  return false;
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
  const most = isOperation ? maxRootFields : Math.max(maxRootFields, MAX_SELECTIONS);
  select(definition.selectionSet, 1, most, isOperation);

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
      } else if (!isRoot && isOperation && repeated === 1 && ++values > maxSelectedValues) {
        const reason = `An operation may select ${maxSelectedValues} values; this one selects more.`;
        throw new StoreError('operation_too_large', reason);
      }
      if (field.selectionSet) {
        const isMeta = isIntrospection || (isRoot && field.name.value.startsWith('__'));
        select(field.selectionSet, at + 1, MAX_SELECTIONS, false, isMeta);
      }
    });
  }

  /** Visits the fields of a selection set, its fragments expanded: spreads that double at each level end at `maxSteps`. */
  function collect(
    { selections }: SelectionSetNode,
    depth: number,
    visit: (field: FieldNode, depth: number) => void,
  ): void {
    if (depth > MAX_DEPTH) throw tooMany('levels, fragments expanded', MAX_DEPTH);
    for (const selection of selections) {
      if (++steps > maxSteps) throw tooMany('selections, fragments expanded', maxSteps);
      const selected = selection.kind === Kind.FRAGMENT_SPREAD ? fragments[selection.name.value] : selection;
      if (selected?.kind === Kind.FIELD) visit(selected, depth);
      else if (selected) collect(selected.selectionSet, depth + 1, visit);
    }
  }
}

function tooMany(what: string, limit: number, code: ErrorName = 'unprocessable_request'): StoreError {
  return new StoreError(code, `An operation may have ${limit} ${what}; this one has more.`);
}

/** Counts synchronously, such as a memory ledger. */
export interface LocalLedger {
  admit(account: Account, cost: number): Admission;
}

/** Milliseconds a minute: a sixth of a core, enough for some ten thousand small documents. */
const TIME = [{ name: 'minute', seconds: 60, limit: 10_000 }] as const;
/** Persisted queries that a caller may register in a minute. */
const REGISTRATIONS = [{ name: 'minute', seconds: 60, limit: 100 }] as const;

/**
 * Creates the limits of what each caller may have the program do for new documents. They are separate from the plan of
 * a key, and each instance counts for itself.
 */
export function createDocumentBudget(createLedger: () => LocalLedger) {
  const time = createLedger();
  const registrations = createLedger();
  const look = (id: string) => time.admit({ id, windows: TIME }, 0).windows[0] as WindowState;

  return {
    /** @throws StoreError `rate_limited` when the caller has used up its time */
    require(caller: string): void {
      const { remaining, resetAt } = look(caller);
      if (remaining > 0) return;
      const retryAfter = secondsUntil(resetAt, monotonicNow());
      throw new StoreError(
        'rate_limited',
        'This server has spent too much time on new documents from you. Send values as variables, so that one document ' +
          `serves many requests. Retry in ${retryAfter} s.`,
        { retryAfter, graphqlOnly: true },
      );
    },
    charge(caller: string, milliseconds: number): void {
      time.admit({ id: caller, windows: TIME }, Math.min(milliseconds, look(caller).remaining));
    },
    /** Counts a persisted query. False if the caller has registered too many. */
    register: (id: string): boolean => registrations.admit({ id, windows: REGISTRATIONS }, 1).outcome === 'admitted',
  };
}

export type DocumentBudget = ReturnType<typeof createDocumentBudget>;
