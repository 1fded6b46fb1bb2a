import { GraphQLError, type GraphQLFormattedError } from 'graphql';
import { StoreError, toStoreError } from '../../errors.js';
import type { Int64 } from '../../pets/int64.js';
import type { NewPet, Pet, PetQuery } from '../../pets/pet.js';
import type { OperationContext } from '../context.js';
import { toNewPet, toPetId, toPetQuery } from '../field-arguments.js';
import { formatStoreError } from '../format-error.js';
import type { MutationAddPetArgs, QueryPetArgs, QueryPetsArgs, RequireFields } from '../generated/resolver-types.js';
import type { CompiledField, CompiledOperation } from './compile.js';
import type { Variables } from './variables.js';

/** What a root field will ask of the store. */
type Step =
  | { readonly kind: 'typename' }
  | { readonly kind: 'pets'; readonly query: PetQuery; readonly key: string }
  | { readonly kind: 'pet'; readonly id: Int64 }
  | { readonly kind: 'addPet'; readonly newPet: NewPet }
  | { readonly kind: 'refused'; readonly error: unknown };

/** A compiled operation with its arguments made and checked, and what it costs. */
export interface PreparedOperation {
  readonly operation: CompiledOperation;
  readonly steps: readonly Step[];
  /** Requests that it would take over REST. */
  readonly cost: number;
}

/** The answer to an operation: its data as JSON text. */
export interface ExecutedOperation {
  readonly data: string;
  readonly errors: readonly GraphQLFormattedError[];
  /** Whether every field is null. */
  readonly isEmpty: boolean;
}

/** Makes and checks the arguments of an operation; what its own rules refuse becomes an error of its field, and costs nothing. */
export function prepareOperation(operation: CompiledOperation, variables: Variables): PreparedOperation {
  const steps = operation.fields.map((field) => toStep(field, variables));
  return { operation, steps, cost: countRequests(steps) };
}

function toStep(field: CompiledField, variables: Variables): Step {
  if (field.kind === 'typename') return field;
  try {
    const args: unknown = field.makeArguments(variables);
    switch (field.kind) {
      case 'pets': {
        const query = toPetQuery(args as RequireFields<QueryPetsArgs, 'limit'>);
        return { kind: 'pets', query, key: `${query.limit} ${query.status ?? ''}` };
      }
      case 'pet':
        return { kind: 'pet', id: toPetId(args as QueryPetArgs) };
      case 'addPet':
        return { kind: 'addPet', newPet: toNewPet(args as MutationAddPetArgs) };
    }
  } catch (error) {
    return { kind: 'refused', error };
  }
}

function countRequests(steps: readonly Step[]): number {
  const reads = new Set<string>();
  let adds = 0;
  for (const step of steps) {
    if (step.kind === 'pet') reads.add(step.id);
    else if (step.kind === 'pets') reads.add(step.key);
    else if (step.kind === 'addPet') adds += 1;
  }
  return reads.size + adds;
}

/** Runs an operation that has been admitted. It never rejects: what fails is an error of its field. */
export async function runOperation(prepared: PreparedOperation, context: OperationContext): Promise<ExecutedOperation> {
  const { operation, steps } = prepared;
  const answers = operation.type === 'mutation' ? await runMutation(steps, context) : await runQuery(steps, context);
  const errors: GraphQLFormattedError[] = [];
  let data = '';
  operation.fields.forEach((field, index) => {
    data += `${index === 0 ? '{' : ','}"${field.responseKey}":${write(field, answers[index], context, errors)}`;
  });
  return { data: `${data}}`, errors, isEmpty: errors.length === operation.fields.length };
}

type Answer = Pet | readonly Pet[] | Error | undefined;

async function runQuery(steps: readonly Step[], { loader }: OperationContext): Promise<readonly Answer[]> {
  const ids: Int64[] = [];
  const lists: Promise<Answer>[] = [];
  for (const step of steps) {
    if (step.kind === 'pet') ids.push(step.id);
    else if (step.kind === 'pets') lists.push(loader.list(step.query).catch(toError));
  }
  const found = ids.length === 0 ? [] : loader.findMany(ids).catch((error: unknown) => ids.map(() => toError(error)));
  // Lookups and lists are asked at the same time.
  const [pets, listed] = await Promise.all([found, lists.length === 0 ? [] : Promise.all(lists)]);
  let nextPet = 0;
  let nextList = 0;
  return steps.map((step): Answer => {
    switch (step.kind) {
      case 'pet':
        return pets[nextPet++] ?? new StoreError('not_found', `There is no animal with id ${step.id}.`);
      case 'pets':
        return listed[nextList++];
      case 'refused':
        return toError(step.error);
      default:
        return undefined;
    }
  });
}

async function runMutation(steps: readonly Step[], { source, call }: OperationContext): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  // One after the other: https://spec.graphql.org/October2021/#sec-Mutation
  for (const step of steps) {
    if (step.kind === 'addPet') answers.push(await source.add(step.newPet, call).catch(toError));
    else answers.push(step.kind === 'refused' ? toError(step.error) : undefined);
  }
  return answers;
}

function write(
  field: CompiledField,
  answer: Answer,
  context: OperationContext,
  errors: GraphQLFormattedError[],
): string {
  if (field.kind === 'typename') return field.text;
  if (answer instanceof Error || answer === undefined) {
    errors.push(formatFieldError(field, answer, context));
    return 'null';
  }
  if (!Array.isArray(answer)) return field.write(answer as Pet);
  let text = '[';
  for (const pet of answer as readonly Pet[]) text += text.length === 1 ? field.write(pet) : `,${field.write(pet)}`;
  return `${text}]`;
}

function formatFieldError(field: CompiledField, thrown: unknown, { report }: OperationContext): GraphQLFormattedError {
  const isArgumentError = thrown instanceof GraphQLError;
  const error = isArgumentError ? new StoreError('invalid_request', thrown.message) : toStoreError(thrown);
  report.failures.push(error);
  const { message, extensions } = formatStoreError(error);
  const locations = isArgumentError ? (thrown.locations ?? field.locations) : field.locations;
  return { message, locations, path: [field.responseKey], extensions: extensions ?? {} };
}

function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
