import Negotiator from 'negotiator';
import { memoize } from '../bounded-cache.js';
import { StoreError } from '../errors.js';
import type { RequestContext } from './request-context.js';

const HTML = 'text/html';

/** Finds the type that a client prefers. All offers are in UTF-8, which needs no mention, however it is spelt. */
function negotiate(accept: string, offers: readonly string[]): string | undefined {
  const types = accept.replace(/\s*;\s*charset\s*=\s*("?)utf-?8\1(?![^\s;,])/gi, '');
  return new Negotiator({ headers: { accept: types } }).mediaType([...offers]);
}

/**
 * Creates the function that chooses the media type of a response by the `Accept` header. It throws a StoreError
 * `not_acceptable` if the header allows none of the types on offer.
 * @param offers - the available types, the preferred one first
 */
export function createMediaTypeChooser(offers: readonly [string, ...string[]]) {
  const choose = memoize((accept) => negotiate(accept, offers));
  return (accept: string | undefined): string => {
    if (!accept || accept === '*/*') return offers[0];
    const choice = choose(accept);
    if (choice === undefined) {
      const types = offers.map((offer) => offer.split(';')[0]).join(' or ');
      throw new StoreError('not_acceptable', `The Accept header must allow ${types}, got ${shorten(accept)}.`);
    }
    return choice;
  };
}

/** Quotes a header in a message. */
export function shorten(header: string): string {
  return JSON.stringify(header.length > 100 ? `${header.slice(0, 100)}…` : header);
}

/** Whether a client prefers a page to the types on offer, as browsers do. */
export function prefersHtml(context: RequestContext, offers: readonly string[]): boolean {
  const accept = context.header('accept');
  if (!['GET', 'HEAD'].includes(context.method) || !accept?.includes(HTML)) return false;
  return negotiate(accept, [...offers, HTML]) === HTML;
}

export function accepts(accept: string, type: string): boolean {
  return negotiate(accept, [type]) !== undefined;
}
