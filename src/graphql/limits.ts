import { GraphQLError, Kind, type SelectionSetNode, type ValidationContext, type ValidationRule } from 'graphql';
import { secondsUntil } from '../access/refusals.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';
import { MAX_ERRORS } from './errors.js';

/** Characters of a token, on average. Even a hundred of the longest names, with every character escaped, have fewer. */
const MAX_TOKEN_LENGTH = 40;
const MAX_DEFINITIONS = 100;
/** Fragments within fragments and fields within fields; introspection by the usual tools has some 20. */
const MAX_DEPTH = 40;
/** Characters of a response key, which may be in a thousand errors. */
const MAX_KEY_LENGTH = 200;
/** Times that one name may be selected of one object, with and without a selection: validation compares all pairs. */
const MAX_REPEATS = 20;
const MAX_LEAF_REPEATS = 50;
/** Selections of introspection, and those of them with a selection: the usual tools have at most some 330 and 110. */
const MAX_INTROSPECTION = 400;
const MAX_INTROSPECTED = 150;

/**
 * Creates the limits of what a document may ask for.
 * @param maxRootFields - that an operation may have
 */
export function createDocumentLimits(maxRootFields: number) {
  // A fully selected, aliased lookup takes 14 tokens, an addition with a variable for each of its inputs some 40.
  const maxTokens = 1_000 + 40 * maxRootFields;
  const maxLength = MAX_TOKEN_LENGTH * maxTokens;
  // A lookup takes 6 lines, an addition 12.
  const maxLines = 1_000 + 10 * maxRootFields;
  const maxSelections = 1_000 + 20 * maxRootFields;

  /** @throws StoreError `bad_request` */
  function requireParsable(text: string): void {
    if (text === '') throw new StoreError('bad_request', 'The query is empty: send {"query": "{ pets { id } }"}.');
    // graphql-js counts the lines for each place that an error names.
    if (text.length <= maxLength && text.split(/\r\n|[\n\r]/, maxLines + 2).length <= maxLines + 1) return;
    throw new StoreError('bad_request', `A document may have ${maxLength} characters and ${maxLines} lines.`);
  }

  /**
   * Ends the validation of a document that asks for too much: fragments and aliases multiply, and other rules compare
   * every selection with every other. What it reports has the StoreError as its extension `refusal`.
   */
  const rule: ValidationRule = (context) => ({
    Document({ definitions }) {
      try {
        if (definitions.length > MAX_DEFINITIONS) throw tooMany('operations and fragments', MAX_DEFINITIONS);
        requireSmall(context, maxSelections);
      } catch (refusal) {
        const error = new GraphQLError('', { extensions: { refusal } });
        // Validation ends at the first error beyond the allowed number.
        for (let count = 0; count <= MAX_ERRORS; count += 1) context.reportError(error);
      }
    },
  });

  return { maxTokens, requireParsable, rule };
}

/** How often each name is selected of one object, and of those below it, in all places that merge into one. */
type Names = Map<string, { times: number; readonly below: Names }>;

function requireSmall(context: ValidationContext, maxSelections: number): void {
  let count = 0;
  let introspection = 0;
  let introspected = 0;
  for (const definition of context.getDocument().definitions) {
    // A fragment may be used in no operation, but it is validated.
    if ('selectionSet' in definition) visitSet(definition.selectionSet, 1, new Map(), false);
  }

  /** Goes through the selections of one object and below, fragments expanded. */
  function visitSet({ selections }: SelectionSetNode, depth: number, names: Names, isIntrospection: boolean): void {
    if (depth > MAX_DEPTH) throw tooMany('levels, fragments expanded', MAX_DEPTH);
    for (const selection of selections) {
      // Spreads that double at each level end here.
      if (++count > maxSelections) throw tooMany('selections, fragments expanded', maxSelections);
      const selected = selection.kind === Kind.FRAGMENT_SPREAD ? context.getFragment(selection.name.value) : selection;
      if (selected?.kind !== Kind.FIELD) {
        if (selected) visitSet(selected.selectionSet, depth + 1, names, isIntrospection);
        continue;
      }
      const { alias, name, selectionSet } = selected;
      if (isIntrospection) {
        if (++introspection > MAX_INTROSPECTION) throw tooMany('introspection fields', MAX_INTROSPECTION);
        if (selectionSet && ++introspected > MAX_INTROSPECTED)
          throw tooMany('introspection fields with selections of their own', MAX_INTROSPECTED);
      }
      const key = (alias ?? name).value;
      if (key.length > MAX_KEY_LENGTH) throw tooMany('characters in the name of a field', MAX_KEY_LENGTH);
      const repeated = names.get(key) ?? { times: 0, below: new Map() };
      names.set(key, repeated);
      const maxRepeats = selectionSet ? MAX_REPEATS : MAX_LEAF_REPEATS;
      if (++repeated.times > maxRepeats) throw tooMany('fields of one name in one place', maxRepeats);
      if (selectionSet)
        visitSet(selectionSet, depth + 1, repeated.below, isIntrospection || name.value.startsWith('__'));
    }
  }
}

function tooMany(what: string, limit: number): StoreError {
  return new StoreError('unprocessable_request', `A document may have ${limit} ${what}; this one has more.`);
}

/** What a new document takes at most, and each of its characters, in milliseconds. */
const DOCUMENT_MS = 2;
const CHARACTER_MS = 0.003;

/** What a caller is charged for a document, in milliseconds: others may have run in between. */
export function toDocumentMs(elapsedMs: number, document: string): number {
  return Math.min(elapsedMs, DOCUMENT_MS + document.length * CHARACTER_MS);
}

/** Milliseconds a minute: a sixth of a core, enough for five thousand small documents. */
const BUDGET_MS = 10_000;
const WINDOW_MS = 60_000;
const MAX_CALLERS = 50_000;

/** Creates the limit of how long this instance works on the new documents of one caller in a minute. */
export function createDocumentBudget(now: () => number = monotonicNow) {
  const callers = createBoundedCache<{ spentMs: number; readonly resetAt: number }>(MAX_CALLERS);

  /** @throws StoreError `rate_limited` if the caller has used up its time */
  return async function spend<T>(caller: string, document: string, work: () => Promise<T>): Promise<T> {
    const startedAt = now();
    let window = callers.get(caller);
    if (!window || window.resetAt <= startedAt) {
      window = { spentMs: 0, resetAt: startedAt + WINDOW_MS };
      callers.set(caller, window);
    }
    if (window.spentMs >= BUDGET_MS) {
      const retryAfter = secondsUntil(window.resetAt, startedAt);
      const reason = 'This server has spent too much time on new documents from you';
      const advice = 'Send values as variables, so that one document serves many requests';
      const details = { retryAfter, graphqlOnly: true };
      throw new StoreError('rate_limited', `${reason}. ${advice}. Retry in ${retryAfter} s.`, details);
    }
    try {
      return await work();
    } finally {
      window.spentMs += toDocumentMs(now() - startedAt, document);
    }
  };
}
