import { randomBytes } from 'node:crypto';

export type RequestIds = ReturnType<typeof createRequestIds>;

/** Stores accept ids of up to 128 characters, and the part that is added here takes about 20. */
const MAX_CLIENT_ID = 100;

/** Creates the ids of requests to an upstream, which tell whether a response belongs to its request. */
export function createRequestIds() {
  // Clients may use a request id twice.
  const tag = `.${randomBytes(6).toString('base64url')}.`;
  let count = 0;
  let isReturned = false;
  let isReturnedWithRefusals = false;
  return {
    create: (requestId: string): string => requestId.slice(0, MAX_CLIENT_ID) + tag + (count += 1).toString(36),
    /** Whether a response may belong to the request with this id. */
    match(id: string, returned: string | undefined, status: number): boolean {
      // A load balancer in front of the upstream may add refusals without the id.
      if (returned === undefined) return status >= 500 || !(status < 400 ? isReturned : isReturnedWithRefusals);
      if (returned === id || returned.split(', ').includes(id)) {
        isReturned = true;
        isReturnedWithRefusals ||= status >= 400;
        return true;
      }
      // An upstream may have ids of its own. It then never returns the id of another request.
      return !isReturned && !returned.includes(tag);
    },
  };
}
