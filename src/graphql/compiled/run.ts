import { GraphQLError, type GraphQLFormattedError } from 'graphql';
import { StoreError, toStoreError, type ErrorName } from '../../errors.js';
import type { Int64 } from '../../pets/int64.js';
import { notFound, type Pet } from '../../pets/pet.js';
import type { OperationContext } from '../context.js';
import { formatStoreError } from '../format-error.js';
import { countRequests, toStep, type Step } from '../step.js';
import type { CompiledField, CompiledOperation } from './compile.js';
import type { VariableValues } from './variables.js';

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
export function prepareOperation(operation: CompiledOperation, values: VariableValues): PreparedOperation {
  const steps = operation.fields.map((field): Step =>
    field.kind === 'typename' ? FREE : toStep(field.kind, field.makeArguments, values),
  );
  return { operation, steps, cost: countRequests(steps) };
}

/** Runs an operation that has been admitted. It never rejects: what fails is an error of its field. */
export async function runOperation(prepared: PreparedOperation, context: OperationContext): Promise<ExecutedOperation> {
  const { operation, steps } = prepared;
  const answers = operation.type === 'mutation' ? await runMutation(prepared, context) : await runQuery(steps, context);
  const { fields } = operation;
  const errors: GraphQLFormattedError[] = [];
  let data = '{';
  for (let index = 0; index < fields.length; index++) {
    const field = fields[index] as CompiledField;
    const value = write(field, answers[index], context, errors);
    data += index === 0 ? field.prefix + value : `,${field.prefix}${value}`;
  }
  return { data: `${data}}`, errors, isEmpty: errors.length === fields.length };
}

type Answer = Pet | readonly Pet[] | Error | undefined;

/** Asks for everything at the same time: each list on its own, all lookups as one. */
async function runQuery(steps: readonly Step[], { loader }: OperationContext): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  const pending: Promise<unknown>[] = [];
  const ids: Int64[] = [];
  const places: number[] = [];
  steps.forEach((step, index) => {
    answers.push(step.kind === 'refused' ? toError(step.error) : undefined);
    if (step.kind === 'pet') {
      ids.push(step.id);
      places.push(index);
    } else if (step.kind === 'pets') {
      const settle = (answer: Answer): void => {
        answers[index] = answer;
      };
      pending.push(loader.list(step.query).then(settle, (error: unknown) => settle(toError(error))));
    }
  });
  if (ids.length > 0) pending.push(lookUp());
  await (pending.length === 1 ? pending[0] : Promise.all(pending));
  return answers;

  async function lookUp(): Promise<void> {
    try {
      const pets = await loader.findMany(ids);
      places.forEach((place, n) => {
        answers[place] = pets[n] ?? notFound(ids[n] as Int64);
      });
    } catch (error) {
      for (const place of places) answers[place] = toError(error);
    }
  }
}

const AWAY: ReadonlySet<ErrorName> = new Set(['unavailable', 'overloaded']);

async function runMutation(
  { operation, steps }: PreparedOperation,
  { source, call, keyOfAddition }: OperationContext,
): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  let position = 0;
  // Once the store does not answer, the rest of the operation would only wait as long again, one after the other.
  let away: Error | undefined;
  // One after the other: https://spec.graphql.org/October2021/#sec-Mutation
  for (const [index, step] of steps.entries()) {
    if (step.kind === 'addPet') {
      const answer: Answer = away ?? (await source.add(step.newPet, call, keyOfAddition?.(position)).catch(toError));
      if (answer instanceof StoreError && AWAY.has(answer.code)) away = answer;
      answers.push(answer);
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
  return Array.isArray(answer) ? field.writer.writeList(answer as readonly Pet[]) : field.writer.write(answer as Pet);
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
