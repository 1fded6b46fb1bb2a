const NUMBERS = /("(?:id|categoryId)":)\s*(-?\d+)/g;
const STRINGS = /("categoryId":)\s*"(-?\d+)"/g;

/**
 * Like fetch, but exact: the identifiers in a response are strings with all of their digits, and so may be those in a
 * request. `JSON.parse` would round numbers beyond 2^53, and `JSON.stringify` cannot write them.
 */
export const exactFetch: typeof fetch = async (input, init) => {
  const request = new Request(input, init);
  const body = await request.clone().text();
  const response = await fetch(request, body === '' ? {} : { body: body.replace(STRINGS, '$1$2') });
  const text = await response.text();
  return new Response(text === '' ? null : text.replace(NUMBERS, '$1"$2"'), {
    status: response.status,
    statusText: response.statusText,
    headers: response.headers,
  });
};
