import { GraphQLError, type GraphQLFormattedError } from 'graphql';
import { StoreError, toStoreError } from '../../errors.js';
import type { Int64 } from '../../pets/int64.js';
import { notFound, type Pet } from '../../pets/pet.js';
import type { OperationContext } from '../context.js';
import { formatStoreError } from '../format-error.js';
import { countRequests, toStep, type Step } from '../step.js';
import type { CompiledField, CompiledOperation } from './compile.js';
import type { Variables } from './variables.js';

const FREE: Step = { kind: 'free' };

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
  const steps = operation.fields.map((field): Step =>
    field.kind === 'typename' ? FREE : toStep(field.kind, () => field.makeArguments(variables)),
  );
  return { operation, steps, cost: countRequests(steps) };
}

/** Runs an operation that has been admitted. It never rejects: what fails is an error of its field. */
export async function runOperation(prepared: PreparedOperation, context: OperationContext): Promise<ExecutedOperation> {
  const { operation, steps } = prepared;
  const answers = operation.type === 'mutation' ? await runMutation(prepared, context) : await runQuery(steps, context);
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
        return pets[nextPet++] ?? notFound(step.id);
      case 'pets':
        return listed[nextList++];
      case 'refused':
        return toError(step.error);
      default:
        return undefined;
    }
  });
}

async function runMutation(
  { operation, steps }: PreparedOperation,
  { source, call, keyOfAddition }: OperationContext,
): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  let position = 0;
  // One after the other: https://spec.graphql.org/October2021/#sec-Mutation
  for (const [index, step] of steps.entries()) {
    if (step.kind === 'addPet') {
      answers.push(await source.add(step.newPet, call, keyOfAddition?.(position)).catch(toError));
    } else answers.push(step.kind === 'refused' ? toError(step.error) : undefined);
    if (operation.fields[index]?.kind === 'addPet') position += 1;
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
