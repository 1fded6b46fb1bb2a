import type {
  FragmentDefinitionNode,
  GraphQLFormattedError,
  GraphQLInputType,
  OperationDefinitionNode,
  SourceLocation,
} from 'graphql';
import type { Session } from '../access/session.js';
import type { StoreError } from '../errors.js';
import type { IdempotencyKey } from '../pets/idempotency-key.js';
import type { PetLoader } from '../pets/pet-loader.js';
import type { Call, PetSource } from '../pets/pet-source.js';

/** One operation as it came over HTTP. */
export interface OperationRequest {
  readonly query: string | undefined;
  /** Names a trusted document. */
  readonly documentId: string | undefined;
  readonly persistedQuery: PersistedQuery | undefined;
  readonly operationName: string | undefined;
  readonly variables: Variables | undefined;
}

/** Apollo's `extensions.persistedQuery`. All other extensions are ignored. */
export interface PersistedQuery {
  readonly version: number;
  readonly sha256Hash: string;
}

export interface GraphqlRequest {
  readonly isBatch: boolean;
  readonly operations: readonly OperationRequest[];
}

export interface Operation {
  readonly type: 'query' | 'mutation';
  readonly name: string | undefined;
  readonly variables: readonly VariableDefinition[];
  /** The names of the variables that `@skip` and `@include` can look at. */
  readonly conditions: readonly string[];
  readonly node: OperationDefinitionNode;
  readonly fragments: Fragments;
}

export interface VariableDefinition {
  readonly name: string;
  readonly type: GraphQLInputType;
  readonly defaultValue: unknown;
  readonly locations: readonly SourceLocation[];
}

export type Variables = Readonly<Record<string, unknown>>;

export type Fragments = ReadonlyMap<string, FragmentDefinitionNode>;

/** An operation as the conditions of `@skip` and `@include` leave it. */
export interface Compiled {
  readonly fields: readonly RootField[];
  readonly deprecations: readonly Deprecation[];
  /** Whether all root fields, skipped ones too, are introspection and `__typename`. */
  readonly isSchemaOnly: boolean;
  /** How many fields it consists of. */
  readonly size: number;
}

export interface RootField extends CompiledWriter {
  readonly responseKey: string;
  readonly locations: readonly SourceLocation[];
  /** @throws StoreError `invalid_request` */
  readonly price: (variables: Variables) => Price;
  /** @param args - as the price has parsed them */
  readonly resolve: (args: unknown, context: OperationContext) => unknown;
  /** Where the status of an animal is selected. */
  readonly statuses: readonly Pick<RootField, 'responseKey' | 'locations'>[];
}

export interface Deprecation {
  /** Such as `Query.pet`. */
  readonly coordinate: string;
  readonly reason: string;
  /** When the field will be removed, such as `2030-12-05`. */
  readonly sunset: string | undefined;
}

/** Writes what is selected of a value as JSON. @throws Error if the value is not what its type promises */
export type Writer = (value: unknown) => string;

/** A writer, and the most bytes that it writes of one object. */
export interface CompiledWriter {
  readonly write: Writer;
  readonly maxBytes: number;
}

/** A valid operation with its variables. */
export interface Prepared {
  readonly operation: Operation;
  readonly compiled: Compiled;
  readonly variables: Variables;
  /** Whether its document is in the manifest. */
  readonly isTrusted: boolean;
}

/** What a root field asks of the animal store. */
export interface Price<Args = unknown> {
  /** Requests to the animal store. */
  readonly cost: 0 | 1;
  /** Fields of one operation with the same key are one request; absent: each is a request of its own. */
  readonly key?: string;
  /** The most animals, or other objects, that the field may return. */
  readonly maxObjects: number;
  /** As parsed, for the resolver. */
  readonly args: Args;
}

export interface FieldCall {
  readonly field: RootField;
  readonly cost: 0 | 1;
  readonly args?: unknown;
  /** Why the arguments were refused. */
  readonly error?: StoreError;
}

export interface Priced {
  readonly isMutation: boolean;
  readonly calls: readonly FieldCall[];
  readonly cost: number;
  /** The longest possible response, in bytes. */
  readonly maxBytes: number;
}

/** What the resolvers of one operation work with. */
export interface OperationContext {
  readonly session: Session;
  readonly call: Call;
  readonly source: PetSource;
  /** Shared by all operations of the HTTP request. */
  readonly loader: PetLoader;
  /** Returns the idempotency key of the next addition; undefined if the client sent none. */
  readonly nextIdempotencyKey: () => IdempotencyKey | undefined;
  readonly guardRateLimit: RateLimitGuard;
}

/** Why a field has no value, or part of it. */
export interface Failure extends Pick<GraphQLFormattedError, 'locations' | 'path'> {
  readonly error: StoreError;
}

/** What became of a field. */
export interface Outcome {
  readonly responseKey: string;
  readonly json: string;
  readonly failures: readonly Failure[];
}

/** The response to one operation. */
export interface OperationResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
  readonly hasData: boolean;
  readonly hasErrors: boolean;
  readonly failures: readonly StoreError[];
}

export interface Answered {
  /** Absent if the operation could not be prepared. */
  readonly prepared?: Prepared;
  /** Absent if it was not admitted. */
  readonly priced?: Priced;
  readonly response: OperationResponse;
}

export interface Execution {
  readonly answers: readonly Answered[];
  /** The names of documents that are not trusted, for the log. */
  readonly untrusted: readonly string[];
  /** How long it took to prepare them, in milliseconds. */
  readonly preparingMs: number;
}

/** @throws StoreError `field_rate_limited` beyond 60 uses a minute by one key */
export type RateLimitGuard = (session: Session) => Promise<void>;
