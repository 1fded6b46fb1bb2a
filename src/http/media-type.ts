import Negotiator from 'negotiator';
import { memoize } from '../access/memoize.js';
import { StoreError } from '../errors.js';
import type { RequestContext } from './request-context.js';

const HTML = 'text/html';

/** The result is in lower case. */
function parseMediaType(header: string): { type: string; charset: string | undefined } {
  const [type = '', ...parameters] = header.split(';').map((part) => part.trim().toLowerCase());
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))?.slice('charset='.length);
  return { type, charset: charset?.replaceAll('"', '') };
}

/**
 * Checks that a request's body is uncompressed JSON in UTF-8. A refusal says what would be accepted:
 * https://www.rfc-editor.org/rfc/rfc9110#section-15.5.16
 * @throws StoreError `unsupported_media_type`
 */
export function requireJsonBody(contentType: string | undefined, contentEncoding: string | undefined): void {
  const { type, charset } = parseMediaType(contentType ?? '');
  if (type !== 'application/json') {
    const came = contentType === undefined ? 'nothing' : shorten(contentType);
    const reason = `The Content-Type must be application/json, got ${came}.`;
    throw new StoreError('unsupported_media_type', reason, { headers: { Accept: 'application/json' } });
  }
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
    throw new StoreError('unsupported_media_type', 'The charset of the Content-Type must be utf-8.');
  }
  if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== 'identity') {
    throw new StoreError(
      'unsupported_media_type',
      'A compressed request body is not supported: send it without Content-Encoding.',
      { headers: { 'Accept-Encoding': 'identity' } },
    );
  }
}

/** Finds the type that a client prefers. All offers are in UTF-8, which needs no mention, however it is spelt. */
function negotiate(accept: string, offers: readonly string[]): string | undefined {
  const types = accept.replace(/\s*;\s*charset\s*=\s*("?)utf-?8\1(?![^\s;,])/gi, '');
  return new Negotiator({ headers: { accept: types } }).mediaType([...offers]);
}

/**
 * Chooses the media type of a response.
 * @throws StoreError `not_acceptable` if the `Accept` header allows none of the types on offer
 */
export type ChooseMediaType = (accept: string | undefined) => string;

/** @param offers - the available types, the preferred one first */
export function createMediaTypeChooser(offers: readonly [string, ...string[]]): ChooseMediaType {
  const choose = memoize((accept) => negotiate(accept, offers));
  return (accept) => {
    if (!accept || accept === '*/*') return offers[0];
    const choice = choose(accept);
    if (choice === undefined) {
      const types = offers.map((offer) => parseMediaType(offer).type).join(' or ');
      throw new StoreError('not_acceptable', `The Accept header must allow ${types}, got ${shorten(accept)}.`);
    }
    return choice;
  };
}

function shorten(header: string): string {
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
