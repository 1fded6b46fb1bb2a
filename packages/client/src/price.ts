import { badInput } from './pet-error.js';

/** Strings, comments, words and brackets: https://spec.graphql.org/September2025/#sec-Appendix-Grammar-Summary.Lexical-Tokens */
const TOKENS = /"""(?:\\"""|[^])*?"""|"(?:\\.|[^"\\\n\r])*"|#[^\n\r]*|\w+|[{}()]/g;

/**
 * Adds the price to each query of a document, so that the store does not run it.
 * @throws PetError if the document has another operation, which would run
 */
export function toDryRun(document: string): string {
  let depth = 0;
  /** The first word of the definition. */
  let keyword = '';
  return document.replace(TOKENS, (token) => {
    if (/^[})]/.test(token)) depth -= 1;
    if (depth === 0) {
      if (/^\w/.test(token)) keyword ||= token;
      if (token === '}') keyword = '';
      if (token === '{' && keyword !== 'fragment') {
        if (keyword && keyword !== 'query') throw badInput('Only queries have a price.');
        token += '_0:rateLimit(dryRun:true){cost}';
      }
    }
    if (/^[{(]/.test(token)) depth += 1;
    return token;
  });
}
