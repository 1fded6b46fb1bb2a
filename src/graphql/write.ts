import {
  getNamedType,
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

export interface WriterCompilerOptions {
  readonly schema: GraphQLSchema;
  readonly fragments: ReturnType<typeof toFragments>;
  /** The variables that decide what `@skip` and `@include` leave. */
  readonly conditions: Variables;
}

/** Makes the compiler of one operation's writers. Equal selections share one writer, so that equal lists are written once. */
export function createWriterCompiler({ schema, fragments, conditions }: WriterCompilerOptions) {
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
    return collectSubfields(schema, fragments, conditions, type, [...nodes]);
  }

  function compile(type: GraphQLOutputType, nodes: readonly FieldNode[]): CompiledWriter {
    if (isNonNullType(type)) return mapWriter(compileNullable(type.ofType, nodes), refuseNull(type));
    return mapWriter(compileNullable(type, nodes), allowNull);
  }

  function compileNullable(type: GraphQLOutputType, nodes: readonly FieldNode[]): CompiledWriter {
    if (isListType(type)) return mapWriter(compile(type.ofType, nodes), toListWriter);
    if (isObjectType(type)) return compileObject(type, nodes);
    if (isEnumType(type)) return { write: toEnumWriter(type), valueCount: 1 };
    if (isScalarType(type)) return { write: toScalarWriter(type), valueCount: 1 };
    throw new Error(`the type ${String(type)} cannot be written`);
  }

  function compileObject(type: GraphQLObjectType, nodes: readonly FieldNode[]): CompiledWriter {
    const parts = [...collect(type, nodes)].map(([responseKey, selected], index) => ({
      prefix: `${index === 0 ? '{' : ','}"${responseKey}":`,
      ...compileField(type, selected),
    }));
    return { write: toObjectWriter(parts), valueCount: parts.reduce((sum, part) => sum + part.valueCount, 0) };
  }

  function compileField(type: GraphQLObjectType, nodes: readonly FieldNode[]): FieldWriter {
    const { value: fieldName } = (nodes[0] as FieldNode).name;
    if (fieldName === '__typename') {
      return { fieldName, write: toConstantWriter(JSON.stringify(type.name)), valueCount: 1 };
    }
    const field = type.getFields()[fieldName];
    if (!field || field.resolve) throw new Error(`${type.name}.${fieldName} is no plain property`);
    return { fieldName, ...compile(field.type, nodes) };
  }
}

interface FieldWriter extends CompiledWriter {
  readonly fieldName: string;
}

function mapWriter({ write, valueCount }: CompiledWriter, map: (write: Writer) => Writer): CompiledWriter {
  return { write: map(write), valueCount };
}

// Functions of their own, so that writers keep nothing of the document: thousands of them are kept.

function allowNull(write: Writer): Writer {
  return (value) => (value == null ? 'null' : write(value));
}

function refuseNull(type: GraphQLOutputType): (write: Writer) => Writer {
  return (write) => (value) => {
    if (value == null) throw new Error(`a value of the type ${String(type)} is null`);
    return write(value);
  };
}

function toConstantWriter(text: string): Writer {
  return () => text;
}

function toObjectWriter(parts: readonly (FieldWriter & { readonly prefix: string })[]): Writer {
  return (value) => {
    let text = '';
    for (const { prefix, fieldName, write } of parts) text += prefix + write((value as Variables)[fieldName]);
    return `${text}}`;
  };
}

/** Requests that were answered by one statement share a list, so its text is kept as long as the list. */
function toListWriter(write: Writer): Writer {
  const texts = new WeakMap<object, string>();
  return (value) => {
    const list = value as readonly unknown[];
    const known = texts.get(list);
    if (known !== undefined) return known;
    let text = '';
    for (const item of list) text += text === '' ? write(item) : `,${write(item)}`;
    text = `[${text}]`;
    texts.set(list, text);
    return text;
  };
}

function toEnumWriter(type: GraphQLEnumType): Writer {
  const names = new Map(type.getValues().map(({ name, value }) => [value as unknown, JSON.stringify(name)]));
  return (value) => {
    const name = names.get(value);
    if (name === undefined) throw new Error(`the type ${type.name} has no such value`);
    return name;
  };
}

/** Most texts hold nothing that JSON escapes: https://www.rfc-editor.org/rfc/rfc8259#section-7 and unpaired surrogates. */
const NEEDS_ESCAPING = /["\\\u0000-\u001f\ud800-\udfff]/;

function toScalarWriter(type: GraphQLScalarType): Writer {
  return (value) => {
    const serialized = typeof value === 'string' ? value : type.serialize(value);
    if (typeof serialized !== 'string') return JSON.stringify(serialized);
    return NEEDS_ESCAPING.test(serialized) ? JSON.stringify(serialized) : `"${serialized}"`;
  };
}
