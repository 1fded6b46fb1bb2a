import type { PetStatus } from '../../pets/pet.js';
import type { Plan } from '../../access/plans.js';
import type { Int64 } from '../../pets/int64.js';
import type { GraphQLResolveInfo } from 'graphql';
import type { Pet as StoredPet } from '../../pets/pet.js';
import type { OperationContext } from '../types.js';
export type Maybe<T> = T | null;
export type InputMaybe<T> = T | undefined;
export type RequireFields<T, K extends keyof T> = Omit<T, K> & { [P in K]-?: NonNullable<T[P]> };
export type EnumResolverSignature<T, AllowedValues = any> = { [key in keyof T]?: AllowedValues };
/** All built-in and custom scalars, mapped to their actual values */
export type Scalars = {
  ID: { input: Int64; output: string; }
  String: { input: string; output: string; }
  Boolean: { input: boolean; output: boolean; }
  Int: { input: number; output: number; }
  Float: { input: number; output: number; }
};

/** The mutations. */
export type Mutation = {
  readonly __typename?: 'Mutation';
  /** Adds an animal and returns it with its new id. Every addPet costs one request of the key's plan. */
  readonly addPet?: Maybe<Pet>;
};


/** The mutations. */
export type MutationAddPetArgs = {
  input: NewPet;
};

/** An animal to add. The store assigns its id. */
export type NewPet = {
  /** The identifier of the animal's category: a 64-bit integer in plain digits, such as "7". */
  readonly categoryId: Scalars['ID']['input'];
  /** The animal's name: 1 to 255 Unicode code points, not all of them white space, without NUL. */
  readonly name: Scalars['String']['input'];
  /** The animal's status. If it is omitted or null, the animal has none: there is no default. */
  readonly status?: InputMaybe<PetStatus>;
};

/** An animal of the store. */
export type Pet = {
  readonly __typename?: 'Pet';
  /** The identifier of the animal's category: a 64-bit integer in plain digits, exact. */
  readonly categoryId: Scalars['ID']['output'];
  /** The identifier that the store assigned to the animal: a 64-bit integer in plain digits, exact. */
  readonly id: Scalars['ID']['output'];
  /** The animal's name: 1 to 255 Unicode code points. */
  readonly name: Scalars['String']['output'];
  /** The animal's status. Null if none was given. */
  readonly status?: Maybe<PetStatus>;
};

export { PetStatus };

export { Plan };

/** The queries. */
export type Query = {
  readonly __typename?: 'Query';
  /**
   * One animal by its identifier. Costs one request of the key's plan, whether the animal exists or not.
   * @deprecated Will be removed on 5 December 2030. Use pets with the status filter.
   */
  readonly pet?: Maybe<Pet>;
  /** The store's animals, lowest id first. Costs one request of the key's plan. */
  readonly pets?: Maybe<ReadonlyArray<Pet>>;
  /**
   * What this operation costs, and what is left of the key's plan after it. Free, but limited to 60 uses a minute.
   * Null while nothing is known of the key's limits.
   */
  readonly rateLimit?: Maybe<RateLimit>;
};


/** The queries. */
export type QueryPetArgs = {
  id: Scalars['ID']['input'];
};


/** The queries. */
export type QueryPetsArgs = {
  after?: InputMaybe<Scalars['ID']['input']>;
  limit?: Scalars['Int']['input'];
  status?: InputMaybe<PetStatus>;
};


/** The queries. */
export type QueryRateLimitArgs = {
  dryRun?: Scalars['Boolean']['input'];
};

/** The limits of the key that sent the request. */
export type RateLimit = {
  readonly __typename?: 'RateLimit';
  /** The requests that this operation costs, or would cost if it is a dry run. */
  readonly cost: Scalars['Int']['output'];
  /** The key's plan. Null if it is not known. */
  readonly plan?: Maybe<Plan>;
  /** The windows in which requests are counted, the shortest first. An operation must fit into all of them. */
  readonly windows: ReadonlyArray<RateLimitWindow>;
};

/** A fixed window of time. It opens with the first counted request. */
export type RateLimitWindow = {
  readonly __typename?: 'RateLimitWindow';
  /** The requests that the window holds. */
  readonly limit: Scalars['Int']['output'];
  /** The requests that are left. */
  readonly remaining: Scalars['Int']['output'];
  /** When the window closes and all requests are available again, in Unix seconds. */
  readonly resetAt: Scalars['Float']['output'];
  /** The window's length in seconds: 60 or 86400. Null if it is not known. */
  readonly seconds?: Maybe<Scalars['Int']['output']>;
};



export type ResolverTypeWrapper<T> = Promise<T> | T;

export type Resolver<TResult, TParent = Record<PropertyKey, never>, TContext = Record<PropertyKey, never>, TArgs = Record<PropertyKey, never>> = ResolverFn<TResult, TParent, TContext, TArgs>;

export type ResolverFn<TResult, TParent, TContext, TArgs> = (
  parent: TParent,
  args: TArgs,
  context: TContext,
  info: GraphQLResolveInfo
) => Promise<TResult> | TResult;

export type SubscriptionSubscribeFn<TResult, TParent, TContext, TArgs> = (
  parent: TParent,
  args: TArgs,
  context: TContext,
  info: GraphQLResolveInfo
) => AsyncIterable<TResult> | Promise<AsyncIterable<TResult>>;

export type SubscriptionResolveFn<TResult, TParent, TContext, TArgs> = (
  parent: TParent,
  args: TArgs,
  context: TContext,
  info: GraphQLResolveInfo
) => TResult | Promise<TResult>;

export interface SubscriptionSubscriberObject<TResult, TKey extends string, TParent, TContext, TArgs> {
  subscribe: SubscriptionSubscribeFn<{ [key in TKey]: TResult }, TParent, TContext, TArgs>;
  resolve?: SubscriptionResolveFn<TResult, { [key in TKey]: TResult }, TContext, TArgs>;
}

export interface SubscriptionResolverObject<TResult, TParent, TContext, TArgs> {
  subscribe: SubscriptionSubscribeFn<any, TParent, TContext, TArgs>;
  resolve: SubscriptionResolveFn<TResult, any, TContext, TArgs>;
}

export type SubscriptionObject<TResult, TKey extends string, TParent, TContext, TArgs> =
  | SubscriptionSubscriberObject<TResult, TKey, TParent, TContext, TArgs>
  | SubscriptionResolverObject<TResult, TParent, TContext, TArgs>;

export type SubscriptionResolver<TResult, TKey extends string, TParent = Record<PropertyKey, never>, TContext = Record<PropertyKey, never>, TArgs = Record<PropertyKey, never>> =
  | ((...args: any[]) => SubscriptionObject<TResult, TKey, TParent, TContext, TArgs>)
  | SubscriptionObject<TResult, TKey, TParent, TContext, TArgs>;

export type TypeResolveFn<TTypes, TParent = Record<PropertyKey, never>, TContext = Record<PropertyKey, never>> = (
  parent: TParent,
  context: TContext,
  info: GraphQLResolveInfo
) => Maybe<TTypes> | Promise<Maybe<TTypes>>;

export type IsTypeOfResolverFn<T = Record<PropertyKey, never>, TContext = Record<PropertyKey, never>> = (obj: T, context: TContext, info: GraphQLResolveInfo) => boolean | Promise<boolean>;

export type NextResolverFn<T> = () => Promise<T>;

export type DirectiveResolverFn<TResult = Record<PropertyKey, never>, TParent = Record<PropertyKey, never>, TContext = Record<PropertyKey, never>, TArgs = Record<PropertyKey, never>> = (
  next: NextResolverFn<TResult>,
  parent: TParent,
  args: TArgs,
  context: TContext,
  info: GraphQLResolveInfo
) => TResult | Promise<TResult>;





/** Mapping between all available schema types and the resolvers types */
export type ResolversTypes = {
  Boolean: ResolverTypeWrapper<Scalars['Boolean']['output']>;
  Float: ResolverTypeWrapper<Scalars['Float']['output']>;
  ID: ResolverTypeWrapper<Scalars['ID']['output']>;
  Int: ResolverTypeWrapper<Scalars['Int']['output']>;
  Mutation: ResolverTypeWrapper<Record<PropertyKey, never>>;
  NewPet: NewPet;
  Pet: ResolverTypeWrapper<StoredPet>;
  PetStatus: PetStatus;
  Plan: Plan;
  Query: ResolverTypeWrapper<Record<PropertyKey, never>>;
  RateLimit: ResolverTypeWrapper<RateLimit>;
  RateLimitWindow: ResolverTypeWrapper<RateLimitWindow>;
  String: ResolverTypeWrapper<Scalars['String']['output']>;
};

/** Mapping between all available schema types and the resolvers parents */
export type ResolversParentTypes = {
  Boolean: Scalars['Boolean']['output'];
  Float: Scalars['Float']['output'];
  ID: Scalars['ID']['output'];
  Int: Scalars['Int']['output'];
  Mutation: Record<PropertyKey, never>;
  NewPet: NewPet;
  Pet: StoredPet;
  Query: Record<PropertyKey, never>;
  RateLimit: RateLimit;
  RateLimitWindow: RateLimitWindow;
  String: Scalars['String']['output'];
};

export type MutationResolvers<ContextType = OperationContext, ParentType extends ResolversParentTypes['Mutation'] = ResolversParentTypes['Mutation']> = {
  addPet?: Resolver<Maybe<ResolversTypes['Pet']>, ParentType, ContextType, RequireFields<MutationAddPetArgs, 'input'>>;
};

export type PetResolvers<ContextType = OperationContext, ParentType extends ResolversParentTypes['Pet'] = ResolversParentTypes['Pet']> = {
  categoryId?: Resolver<ResolversTypes['ID'], ParentType, ContextType>;
  id?: Resolver<ResolversTypes['ID'], ParentType, ContextType>;
  name?: Resolver<ResolversTypes['String'], ParentType, ContextType>;
  status?: Resolver<Maybe<ResolversTypes['PetStatus']>, ParentType, ContextType>;
};

export type PetStatusResolvers = EnumResolverSignature<{ AVAILABLE?: any, PENDING?: any, SOLD?: any }, ResolversTypes['PetStatus']>;

export type PlanResolvers = EnumResolverSignature<{ BUSINESS?: any, ENTERPRISE?: any, FREE?: any, PRO?: any }, ResolversTypes['Plan']>;

export type QueryResolvers<ContextType = OperationContext, ParentType extends ResolversParentTypes['Query'] = ResolversParentTypes['Query']> = {
  pet?: Resolver<Maybe<ResolversTypes['Pet']>, ParentType, ContextType, RequireFields<QueryPetArgs, 'id'>>;
  pets?: Resolver<Maybe<ReadonlyArray<ResolversTypes['Pet']>>, ParentType, ContextType, RequireFields<QueryPetsArgs, 'limit'>>;
  rateLimit?: Resolver<Maybe<ResolversTypes['RateLimit']>, ParentType, ContextType, RequireFields<QueryRateLimitArgs, 'dryRun'>>;
};

export type RateLimitResolvers<ContextType = OperationContext, ParentType extends ResolversParentTypes['RateLimit'] = ResolversParentTypes['RateLimit']> = {
  cost?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  plan?: Resolver<Maybe<ResolversTypes['Plan']>, ParentType, ContextType>;
  windows?: Resolver<ReadonlyArray<ResolversTypes['RateLimitWindow']>, ParentType, ContextType>;
};

export type RateLimitWindowResolvers<ContextType = OperationContext, ParentType extends ResolversParentTypes['RateLimitWindow'] = ResolversParentTypes['RateLimitWindow']> = {
  limit?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  remaining?: Resolver<ResolversTypes['Int'], ParentType, ContextType>;
  resetAt?: Resolver<ResolversTypes['Float'], ParentType, ContextType>;
  seconds?: Resolver<Maybe<ResolversTypes['Int']>, ParentType, ContextType>;
};

export type Resolvers<ContextType = OperationContext> = {
  Mutation?: MutationResolvers<ContextType>;
  Pet?: PetResolvers<ContextType>;
  PetStatus?: PetStatusResolvers;
  Plan?: PlanResolvers;
  Query?: QueryResolvers<ContextType>;
  RateLimit?: RateLimitResolvers<ContextType>;
  RateLimitWindow?: RateLimitWindowResolvers<ContextType>;
};

