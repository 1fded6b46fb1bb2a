import type { MaybePromise } from '../access/maybe-promise.js';
import type { Session } from '../access/session.js';
import type { StoreError } from '../errors.js';
import type { Reply } from './reply.js';
import type { HttpRequest } from './request.js';

/** A path of an interface, and what answers its requests. */
export interface Route {
  /** For metrics and the log. */
  readonly name: string;
  /** HEAD is answered like GET. */
  readonly methods: readonly string[];
  /** Refuses a request by its head, before its key is looked at. @throws StoreError */
  readonly checkHead?: (request: HttpRequest) => void;
  /** Whether a request of this session gets 401 without a valid key. */
  readonly requiresKey: (session: Session) => boolean;
  /** Whether it is also served while keys cannot be looked up. */
  readonly isPublic?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  /** Further headers of the responses to other methods than POST. */
  readonly readHeaders?: Readonly<Record<string, string>>;
  /**
   * Answers a request. Its body is complete.
   * @throws StoreError, which becomes the interface's reply to an error
   */
  readonly handle: (request: HttpRequest, session: Session) => MaybePromise<Reply>;
}

/** An interface of the program, such as GraphQL or REST. */
export interface Api {
  /** Its paths are this one and all below it. */
  readonly root: string;
  readonly findRoute: (path: string) => Route | undefined;
  readonly toErrorReply: (error: StoreError, request: HttpRequest) => Reply;
}

/** A page, probe or file, which needs no key. */
export interface Page {
  /** For metrics and the log. */
  readonly name: string;
  readonly methods?: readonly string[];
  /** Whether it waits only for other probes, because others decide by it whether the program lives. */
  readonly isProbe?: boolean;
  /** Whether it has the limit headers of an interface: those of a client without a key. */
  readonly isLimited?: boolean;
  readonly handle: (request: HttpRequest) => MaybePromise<Reply>;
}
