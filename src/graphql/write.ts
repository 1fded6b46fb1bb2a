import {
  getNullableType,
  isEnumType,
  isListType,
  isNonNullType,
  isObjectType,
  isScalarType,
  type FieldNode,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLScalarType,
} from 'graphql';
import { NAME_LENGTH } from '../pets/pet.js';
import { MAX_KEPT_TEXT, WHOLE } from '../pets/pet-source.js';
import type { Writer, CompiledWriter } from './types.js';

/** The most bytes of each scalar, with its quotes. A character of a name may be written as `\u0001`. */
const SCALAR_BYTES: Readonly<Record<string, number>> = {
  ID: 22,
  Int: 11,
  Float: 24,
  Boolean: 5,
  String: 6 * NAME_LENGTH.maximum + 2,
};
const NULL_BYTES = 4;
/** The longest is `"ENTERPRISE"`. */
const ENUM_BYTES = 12;

/**
 * Creates the compiler of one operation's writers.
 * @param collect - collects the fields that are selected of an object, by response key
 */
export function createWriterCompiler(
  collect: (nodes: readonly FieldNode[]) => ReadonlyMap<string, readonly FieldNode[]>,
  onField: (parent: GraphQLObjectType, field: GraphQLField<unknown, unknown>) => void,
) {
  return compile;

  function compile(type: GraphQLOutputType, nodes: readonly FieldNode[]): CompiledWriter {
    const { write, maxBytes } = compileValue(getNullableType(type), nodes);
    const writeNull = (): string => {
      if (isNonNullType(type)) throw new Error(`a value of the type ${String(type)} is null`);
      return 'null';
    };
    return { write: (value) => (value == null ? writeNull() : write(value)), maxBytes: Math.max(maxBytes, NULL_BYTES) };
  }

  function compileValue(type: GraphQLOutputType, nodes: readonly FieldNode[]): CompiledWriter {
    if (isListType(type)) {
      const { write, maxBytes } = compile(type.ofType, nodes);
      return { write: toListWriter(write), maxBytes };
    }
    if (isObjectType(type)) return compileObject(type, nodes);
    if (isEnumType(type)) {
      const names = new Map(type.getValues().map(({ name, value }) => [value as unknown, `"${name}"`]));
      // For what is no value of the type, `serialize` throws.
      return { write: (value) => names.get(value) ?? String(type.serialize(value)), maxBytes: ENUM_BYTES };
    }
    if (isScalarType(type)) return { write: toScalarWriter(type), maxBytes: SCALAR_BYTES[type.name] ?? Infinity };
    throw new Error(`the type ${String(type)} cannot be written`);
  }

  function compileObject(type: GraphQLObjectType, nodes: readonly FieldNode[]): CompiledWriter {
    /** Each field, and the constant text before its value. */
    const parts: { readonly constant: string; readonly fieldName: string; readonly write: Writer }[] = [];
    let maxBytes = 2;
    let constant = '{';
    for (const [key, selected] of collect(nodes)) {
      constant += `${maxBytes === 2 ? '' : ','}"${key}":`;
      maxBytes += key.length + 4;
      const fieldName = (selected[0] as FieldNode).name.value;
      if (fieldName === '__typename') {
        constant += `"${type.name}"`;
        maxBytes += type.name.length + 2;
        continue;
      }
      const field = type.getFields()[fieldName];
      if (!field || field.resolve) throw new Error(`${type.name}.${fieldName} must be a property: it has a resolver`);
      onField(type, field);
      const writer = compile(field.type, selected);
      parts.push({ constant, fieldName, write: writer.write });
      maxBytes += writer.maxBytes;
      constant = '';
    }
    const end = `${constant}}`;
    const write: Writer = (value) => {
      let text = '';
      for (const part of parts) {
        text += part.constant + part.write((value as Readonly<Record<string, unknown>>)[part.fieldName]);
      }
      return text + end;
    };
    return { write, maxBytes };
  }
}

const WRITTEN = Symbol('written');

/** Requests that were answered by one statement share a list, which keeps the text that was last written of it. */
interface SharedList extends ReadonlyArray<unknown> {
  readonly [WHOLE]?: SharedList;
  /** The text of its first items, with a comma before each, and where each of them ends. */
  [WRITTEN]?: { readonly write: Writer; text: string; readonly ends: number[] };
}

function toListWriter(write: Writer): Writer {
  return (value) => {
    const list = value as SharedList;
    if (list.length === 0) return '[]';
    const whole = list[WHOLE] ?? list;
    let written = whole[WRITTEN];
    if (written?.write !== write) whole[WRITTEN] = written = { write, text: '', ends: [] };
    const { ends } = written;
    if (ends.length < list.length) {
      const texts = whole.slice(ends.length, list.length).map(write);
      for (const text of texts) ends.push((ends.at(-1) ?? 0) + 1 + text.length);
      written.text = [written.text, ...texts].join();
    }
    if (written.text.length > MAX_KEPT_TEXT) whole[WRITTEN] = undefined;
    return `[${written.text.slice(1, ends[list.length - 1])}]`;
  };
}

/** Few texts need escaping: https://www.rfc-editor.org/rfc/rfc8259#section-7, and unpaired surrogates. */
const NEEDS_ESCAPING = /["\\\u0000-\u001f\ud800-\udfff]/;

function toScalarWriter(type: GraphQLScalarType): Writer {
  return (value) => {
    const serialized = typeof value === 'string' ? value : type.serialize(value);
    if (typeof serialized !== 'string') return JSON.stringify(serialized);
    return NEEDS_ESCAPING.test(serialized) ? JSON.stringify(serialized) : `"${serialized}"`;
  };
}
