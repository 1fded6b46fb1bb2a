import {
  getNamedType,
  getNullableType,
  isEnumType,
  isListType,
  isNonNullType,
  isObjectType,
  isScalarType,
  type FieldNode,
  type GraphQLEnumType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLScalarType,
  type GraphQLSchema,
} from 'graphql';
import { collectSubfields } from 'graphql/execution/collectFields.js';
import { WHOLE } from '../pets/pet-source.js';
import type { toFragments } from './document.js';
import type { Variables } from './variables.js';

/**
 * Writes what an operation selects of a value as JSON text.
 * @throws Error when the value is not what its type promises
 */
export type Writer = (value: unknown) => string;

/** A writer, and how many values it writes of each object. */
export interface CompiledWriter {
  readonly write: Writer;
  readonly valueCount: number;
}

/**
 * Makes the compiler of one operation's writers. Equal selections share one writer, so that equal lists are written once.
 * @param variables - those that decide what `@skip` and `@include` leave
 */
export function createWriterCompiler(
  schema: GraphQLSchema,
  fragments: ReturnType<typeof toFragments>,
  variables: Readonly<Variables>,
) {
  const known = new Map<string, CompiledWriter>();
  return (type: GraphQLOutputType, nodes: readonly FieldNode[]): CompiledWriter => {
    const signature = `${String(type)} ${sign(getNamedType(type), nodes)}`;
    const compiled = known.get(signature) ?? compile(type, nodes);
    known.set(signature, compiled);
    return compiled;
  };

  /** Names what is selected: equal texts are equal selections. */
  function sign(type: GraphQLNamedType, nodes: readonly FieldNode[]): string {
    if (!isObjectType(type)) return '';
    const parts = [...collect(type, nodes)].map(([responseKey, selected]) => {
      const fieldName = (selected[0] as FieldNode).name.value;
      const field = type.getFields()[fieldName];
      return `${responseKey}:${fieldName}${field ? sign(getNamedType(field.type), selected) : ''}`;
    });
    return `{${parts.join()}}`;
  }

  function collect(type: GraphQLObjectType, nodes: readonly FieldNode[]) {
    return collectSubfields(schema, fragments, variables, type, [...nodes]);
  }

  function compile(type: GraphQLOutputType, nodes: readonly FieldNode[]): CompiledWriter {
    const onNull = isNonNullType(type) ? refuseNull(type) : allowNull;
    const nullable = getNullableType(type);
    if (isListType(nullable)) {
      const { write, valueCount } = compile(nullable.ofType, nodes);
      return { write: toListWriter(write, onNull), valueCount };
    }
    if (isObjectType(nullable)) return compileObject(nullable, nodes, onNull);
    if (isEnumType(nullable)) return { write: toEnumWriter(nullable, onNull), valueCount: 1 };
    if (isScalarType(nullable)) return { write: toScalarWriter(nullable, onNull), valueCount: 1 };
    throw new Error(`the type ${String(type)} cannot be written`);
  }

  function compileObject(type: GraphQLObjectType, nodes: readonly FieldNode[], onNull: NullWriter): CompiledWriter {
    const parts: Part[] = [];
    let valueCount = 0;
    let constant = '';
    let separator = '{';
    for (const [responseKey, selected] of collect(type, nodes)) {
      constant += `${separator}"${responseKey}":`;
      separator = ',';
      const { value: fieldName } = (selected[0] as FieldNode).name;
      if (fieldName === '__typename') {
        constant += JSON.stringify(type.name);
        valueCount += 1;
        continue;
      }
      const field = type.getFields()[fieldName];
      if (!field || field.resolve)
        throw new Error(
          `${type.name}.${fieldName} must be a property of its object: only root fields may have a resolver`,
        );
      const compiled = compile(field.type, selected);
      parts.push({ constant, fieldName, write: compiled.write });
      valueCount += compiled.valueCount;
      constant = '';
    }
    // `@skip` and `@include` may leave nothing.
    const end = separator === '{' ? '{}' : `${constant}}`;
    return { write: toObjectWriter(parts, end, onNull), valueCount };
  }
}

/** A field of an object, and the text before its value: what has been constant since the last one. */
interface Part {
  readonly constant: string;
  readonly fieldName: string;
  readonly write: Writer;
}

type NullWriter = () => string;

// Functions of their own, so that writers keep nothing of the document: thousands of them are kept.

function allowNull(): string {
  return 'null';
}

function refuseNull(type: GraphQLOutputType): NullWriter {
  return () => {
    throw new Error(`a value of the type ${String(type)} is null`);
  };
}

function toObjectWriter(parts: readonly Part[], end: string, onNull: NullWriter): Writer {
  return (value) => {
    if (value == null) return onNull();
    let text = '';
    for (const { constant, fieldName, write } of parts) text += constant + write((value as Variables)[fieldName]);
    return text + end;
  };
}

const WRITTEN = Symbol('written');

/**
 * Requests that were answered by one statement share a list, which keeps the text that was last written of it. A
 * WeakMap from lists to texts would keep the texts longer: V8 frees them only with the old generation.
 */
interface SharedList extends ReadonlyArray<unknown> {
  readonly [WHOLE]?: SharedList;
  [WRITTEN]?: WrittenList;
}

/** The text of the first items of a list. */
interface WrittenList {
  readonly write: Writer;
  text: string;
  /** Where the text of each item ends. */
  readonly ends: number[];
}

function toListWriter(write: Writer, onNull: NullWriter): Writer {
  return (value) => {
    if (value == null) return onNull();
    const list = value as SharedList;
    const whole = list[WHOLE] ?? list;
    let written = whole[WRITTEN];
    if (written?.write !== write) whole[WRITTEN] = written = { write, text: '', ends: [] };
    for (let index = written.ends.length; index < list.length; index += 1) {
      written.text += index === 0 ? write(whole[index]) : `,${write(whole[index])}`;
      written.ends.push(written.text.length);
    }
    return list.length === 0 ? '[]' : `[${written.text.slice(0, written.ends[list.length - 1])}]`;
  };
}

function toEnumWriter(type: GraphQLEnumType, onNull: NullWriter): Writer {
  const names = new Map(type.getValues().map(({ name, value }) => [value as unknown, JSON.stringify(name)]));
  return (value) => {
    if (value == null) return onNull();
    const name = names.get(value);
    if (name === undefined) throw new Error(`the type ${type.name} has no such value`);
    return name;
  };
}

/** Most texts hold nothing that JSON escapes: https://www.rfc-editor.org/rfc/rfc8259#section-7 and unpaired surrogates. */
const NEEDS_ESCAPING = /["\\\u0000-\u001f\ud800-\udfff]/;

function toScalarWriter(type: GraphQLScalarType, onNull: NullWriter): Writer {
  return (value) => {
    if (value == null) return onNull();
    const serialized = typeof value === 'string' ? value : type.serialize(value);
    if (typeof serialized !== 'string') return JSON.stringify(serialized);
    return NEEDS_ESCAPING.test(serialized) ? JSON.stringify(serialized) : `"${serialized}"`;
  };
}
