import { randomBytes } from 'node:crypto';

/** The ids of the requests to an upstream, which tell whether a response belongs to its request. */
export interface RequestIds {
  /** Whether the upstream has returned the id of a request. */
  readonly isReturned: boolean;
  /** Creates an id that no other request has. It begins with the id of the client's request. */
  create(requestId: string): string;
  /** Whether a response may belong to the request with this id. */
  matches(id: string, returned: string | undefined, status: number): boolean;
}

/** Stores accept ids of up to 128 characters, and the part that is added here takes about 20. */
const MAX_CLIENT_ID = 100;

export function createRequestIds(): RequestIds {
  // A client chooses its request ids and may use one twice, so they do not tell its requests apart.
  const tag = `.${randomBytes(6).toString('base64url')}.`;
  let count = 0;
  let isReturned = false;
  return {
    get isReturned() {
      return isReturned;
    },
    create(requestId) {
      count += 1;
      return requestId.slice(0, MAX_CLIENT_ID) + tag + count.toString(36);
    },
    matches(id, returned, status) {
      if (returned === id || returned?.split(', ').includes(id)) {
        isReturned = true;
        return true;
      }
      // A load balancer in front of the upstream may add refusals without the id. They contain no data of another key.
      if (returned === undefined) return !isReturned || status >= 300;
      // An upstream may have ids of its own. It then never returns the id of another request.
      return !isReturned && !returned.includes(tag);
    },
  };
}
