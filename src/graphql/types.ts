import type { GraphQLFormattedError, GraphQLInputType, OperationDefinitionNode, SourceLocation } from 'graphql';
import type { RateLimitGuard, Session } from '../access/session.js';
import type { StoreError } from '../errors.js';
import type { IdempotencyKey } from '../pets/idempotency-key.js';
import type { Int64 } from '../pets/int64.js';
import type { PetLoader } from '../pets/pet-loader.js';
import type { Call, FoundPets, PetSource } from '../pets/pet-source.js';

export type Variables = Readonly<Record<string, unknown>>;

/** One operation as it came over HTTP. */
export interface OperationRequest {
  readonly query: string | undefined;
  readonly documentId: string | undefined;
  /** Of Apollo's `extensions.persistedQuery`: a SHA-256. All other extensions are ignored. */
  readonly persistedHash: string | undefined;
  readonly operationName: string | undefined;
  readonly variables: Variables | undefined;
}

/** An operation of a valid document. */
export interface Operation {
  readonly type: 'query' | 'mutation';
  readonly name: string | undefined;
  readonly variables: readonly {
    readonly name: string;
    readonly type: GraphQLInputType;
    readonly defaultValue: unknown;
    readonly locations: readonly SourceLocation[];
  }[];
  /** The names of the variables that `@skip` and `@include` can look at. */
  readonly conditions: readonly string[];
  readonly node: OperationDefinitionNode;
  /** As compiled for each combination of conditions. */
  readonly variants: Map<string, Compiled>;
}

/** An operation as the conditions of `@skip` and `@include` leave it. */
export interface Compiled {
  readonly fields: readonly RootField[];
  readonly deprecations: readonly Deprecation[];
  /** Whether the document has a lookup by id anywhere. After its removal, the document will not be valid. */
  readonly namesLookup: boolean;
  /** Whether all root fields, skipped ones too, are introspection and `__typename`. */
  readonly isSchemaOnly: boolean;
  readonly size: number;
}

export interface Deprecation {
  readonly coordinate: string;
  readonly reason: string;
  /** Such as `2030-12-05`. */
  readonly sunset: string | undefined;
  /** When the field will next answer as after its removal, or does so now. */
  readonly brownout: string | undefined;
}

/** Writes what is selected of a value as JSON. @throws Error if the value is not what its type promises */
export type Writer = (value: unknown) => string;

export interface CompiledWriter {
  readonly write: Writer;
  readonly maxBytes: number;
}

interface FieldPlace {
  readonly responseKey: string;
  readonly locations: readonly SourceLocation[];
}

export interface RootField extends CompiledWriter, FieldPlace {
  readonly isAddition: boolean;
  /** @throws InvalidArgument if a value does not fit its type */
  readonly toArguments: (variables: Variables) => Variables;
  /** @throws StoreError `invalid_request` */
  readonly price: (args: Variables) => Price;
  /** @param args - as the price has parsed them */
  readonly resolve: (root: undefined, args: unknown, context: OperationContext) => unknown;
  /** Where the status of an animal is selected. */
  readonly statuses: readonly FieldPlace[];
}

export interface Prepared {
  readonly operation: Operation;
  readonly compiled: Compiled;
  readonly variables: Variables;
}

/** What a root field asks of the animal store. */
export interface Price<Args = unknown> {
  /** In requests. */
  readonly cost: 0 | 1;
  /** Fields of one operation with the same key are one request; absent: each is a request of its own. */
  readonly key?: string;
  /** The animal that is looked up before the field is resolved. */
  readonly lookup?: Int64;
  /** The most animals, or other objects, that the field may return. */
  readonly maxObjects: number;
  readonly args: Args;
  readonly isDryRun?: boolean;
}

/** A root field on its way. */
export interface PricedField {
  readonly field: RootField;
  cost: 0 | 1;
  lookup: Int64 | undefined;
  args: unknown;
  /** Why it is not run. */
  error: StoreError | undefined;
  /** Its value. */
  json: string;
  failures: readonly Failure[];
}

/** Why a field has no value, or part of it. */
export interface Failure extends Pick<GraphQLFormattedError, 'locations' | 'path'> {
  readonly error: StoreError;
}

export interface Priced {
  readonly fields: readonly PricedField[];
  /** Only fields that are free run in a dry run. */
  readonly isDryRun: boolean;
  readonly cost: number;
  /** What is charged: the cost, or nothing in a dry run. */
  readonly charge: number;
  /** The longest possible response, without errors. */
  readonly maxBytes: number;
}

/** What resolvers work with. */
export interface OperationContext {
  readonly priced: Pick<Priced, 'cost' | 'isDryRun'>;
  readonly session: Session;
  readonly call: Call;
  readonly source: PetSource;
  readonly load: PetLoader;
  /** What was looked up for the operation. */
  readonly found?: FoundPets;
  /** Of the next addition; undefined if the client sent none. */
  readonly nextIdempotencyKey: () => IdempotencyKey | undefined;
  readonly guardRateLimit: RateLimitGuard;
  /** How many more errors of unknown statuses the response to the HTTP request may have. */
  readonly statusErrors: { left: number };
}

export interface OperationResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly hasData: boolean;
  readonly failures: readonly StoreError[];
}

/** What became of an operation. */
export interface ExecutedOperation {
  /** Absent if the operation could not be prepared. */
  prepared?: Prepared;
  /** Absent if it was not admitted. */
  priced?: Priced;
  response: OperationResponse;
  /** Whether its document is in the manifest. */
  isTrusted?: boolean;
  /** The name of a document that is not trusted, for the log. */
  untrusted?: string;
}
