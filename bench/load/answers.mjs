import { isDeepStrictEqual } from 'node:util';
import { STOCK } from '../data/animals.mjs';

/** One answer in so many is read whole even when its bytes are known. */
const FULL_CHECK_EVERY = 256;

/**
 * Checks every answer of one server. The first answer to each request is parsed and compared with the animals; the ones
 * after it must be the same bytes, or are parsed and compared again. What differs between two answers to the same
 * addPet is the new id, so there the bytes around it must be the same.
 * @param stock - the animals: how many (`count`), each by its id (`animal`), and what a list answers (`list`)
 */
export function createChecker(operations, dialect, stock = STOCK) {
  const known = new Array(operations.length);
  const counts = { answers: 0, readWhole: 0 };

  /** Returns undefined, or what is wrong with the answer. */
  function check(index, status, bytes, start, end) {
    counts.answers += 1;
    const before = known[index];
    if (before !== undefined && status === 200 && counts.answers % FULL_CHECK_EVERY !== 0) {
      if (isSame(before, bytes, start, end)) return undefined;
    }
    counts.readWhole += 1;
    const text = bytes.utf8Slice(start, end);
    const operation = operations[index];
    const fault = status === 200 ? findFault(text, operation, dialect, stock) : `HTTP status ${status}`;
    if (fault !== undefined) {
      return `${fault}\n  asked: ${JSON.stringify(operation).slice(0, 300)}\n  got: ${text.slice(0, 600)}`;
    }
    known[index] = operation.kind === 'add' ? aroundId(text, dialect, operation) : { whole: Buffer.from(text) };
    return undefined;
  }

  return { check, counts };
}

function isSame({ whole, prefix, suffix }, bytes, start, end) {
  if (whole !== undefined) {
    return whole.length === end - start && bytes.compare(whole, 0, whole.length, start, end) === 0;
  }
  const idStart = start + prefix.length;
  const idEnd = end - suffix.length;
  if (idStart >= idEnd) return false;
  if (bytes.compare(prefix, 0, prefix.length, start, idStart) !== 0) return false;
  if (bytes.compare(suffix, 0, suffix.length, idEnd, end) !== 0) return false;
  for (let at = idStart; at < idEnd; at += 1) {
    if (bytes[at] < 0x30 || bytes[at] > 0x39) return false;
  }
  return true;
}

function findFault(text, operation, dialect, stock) {
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    return 'not JSON';
  }
  if (answer.errors !== undefined) return 'errors';
  let animals;
  try {
    animals = dialect.toAnimals(answer.data, operation);
  } catch (error) {
    return `another shape than asked for (${error.message})`;
  }
  return isDeepStrictEqual(animals.map(inOrder), expected(operation, animals, stock).map(inOrder))
    ? undefined
    : 'other animals';
}

function expected(operation, animals, { count, animal, list }) {
  switch (operation.kind) {
    case 'list':
      return list(operation.limit, operation.status);
    case 'lookup':
      return operation.ids.map((id) => animal(Number(id)));
    default: {
      // Any id will do that is new.
      const id = animals[0]?.id;
      const { name, categoryId, status } = operation;
      return [{ id: /^\d+$/.test(id) && Number(id) > count ? id : 'a new id', name, categoryId, status }];
    }
  }
}

const inOrder = ({ id, name, categoryId, status, ...more }) => ({ id, name, categoryId, status, ...more });

function aroundId(text, dialect, operation) {
  const [{ id }] = dialect.toAnimals(JSON.parse(text).data, operation);
  const at = text.indexOf(id);
  return { prefix: Buffer.from(text.slice(0, at)), suffix: Buffer.from(text.slice(at + id.length)) };
}
