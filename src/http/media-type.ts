import Negotiator from 'negotiator';
import { StoreError } from '../errors.js';
import type { HttpRequest } from './request.js';

const HTML = 'text/html';
/** Browsers send about 150 characters. */
const MAX_LENGTH = 2_000;

/** Finds the type that a client prefers. All offers are in UTF-8, which needs no mention. */
function negotiate(accept: string, offers: readonly string[]): string | undefined {
  if (accept.length > MAX_LENGTH) return undefined;
  const types = accept.replace(/;\s*charset="?utf-?8"?/gi, '');
  return new Negotiator({ headers: { accept: types } }).mediaType([...offers]);
}

/**
 * Creates the function that chooses the media type of a response by the `Accept` header. It throws a StoreError
 * `not_acceptable` if the header allows none of the types on offer.
 * @param offers - the available types, the preferred one first
 */
export function createMediaTypeChooser(offers: readonly [string, ...string[]]) {
  let known = { accept: '*/*', choice: offers[0] };
  return (accept = ''): string => {
    if (accept === '') return offers[0];
    // Most requests come from few kinds of clients.
    if (accept === known.accept) return known.choice;
    const choice = negotiate(accept, offers);
    if (choice === undefined) {
      const types = offers.map((offer) => offer.split(';')[0]).join(' or ');
      throw new StoreError('not_acceptable', `The Accept header must allow ${types}, got ${shorten(accept)}.`);
    }
    known = { accept, choice };
    return choice;
  };
}

/** Quotes a header in a message. */
export function shorten(header: string): string {
  return JSON.stringify(header.length > 100 ? `${header.slice(0, 100)}…` : header);
}

/** Whether a client prefers a page to the types on offer, as browsers do. */
export function prefersHtml(request: HttpRequest, offers: readonly string[]): boolean {
  const accept = request.header('accept');
  if (!['GET', 'HEAD'].includes(request.method) || !accept?.includes(HTML)) return false;
  return negotiate(accept, [...offers, HTML]) === HTML;
}
