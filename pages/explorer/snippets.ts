import {
  Kind,
  parse,
  valueFromASTUntyped,
  visit,
  type ASTVisitor,
  type DocumentNode,
  type SelectionNode,
  type ValueNode,
} from 'graphql';

/** An operation as the editors hold it. */
export interface Edited {
  readonly query: string;
  /** The operation that would run, if the document has several. */
  readonly operationName?: string | undefined;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** The operation as a curl command for a POSIX shell. It contains the key, so that it can be run as it is. */
export function toCurl(url: string, { headers, ...operation }: Edited, key: string): string {
  const all = { ...(key && { Authorization: `Bearer ${key}` }), 'Content-Type': 'application/json', ...headers };
  const options = Object.entries(all).map(([name, value]) => `  -H ${quote(`${name}: ${value}`)} \\\n`);
  return `curl ${url} \\\n${options.join('')}  -d ${quote(JSON.stringify(operation))}`;
}

/** The operation as JavaScript. It does not contain the key, because code is often shared. */
export function toFetch(url: string, { headers, ...operation }: Edited): string {
  const all = { Authorization: 'Bearer YOUR_KEY', 'Content-Type': 'application/json', ...headers };
  return `const response = await fetch(${JSON.stringify(url)}, {
  method: 'POST',
  headers: ${indent(JSON.stringify(all, null, 2))},
  body: JSON.stringify(${indent(JSON.stringify(operation, null, 2))}),
});
console.log(response.status, await response.json());`;
}

/** The operation as calls of the client package. A comment names each field that the client has no method for. */
export function toClientCode(url: string, edited: Edited): string {
  const idempotencyKey = edited.headers['Idempotency-Key'];
  const options = idempotencyKey === undefined ? '' : `, ${toCode({ idempotencyKey })}`;
  const lines = readRootFields(edited).map(({ name, args }) => {
    switch (name) {
      case 'pets':
        return `console.log(await client.list(${toCode(args)}));`;
      case 'pet':
        return `console.log(await client.get(${toCode(args.id)}));`;
      case 'addPet':
        return `console.log(await client.add(${toCode(args.input)}${options}));`;
      default:
        return `// The client package has no method for ${name}.`;
    }
  });
  return `import { createPetClient } from 'animal-store-client';

const client = createPetClient({ url: ${JSON.stringify(url)}, key: 'YOUR_KEY' });
${lines.join('\n')}`;
}

interface RootField {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** The root fields of the operation that would run, also those in fragments. A text that is not GraphQL has none. */
function readRootFields({ query, operationName, variables }: Edited): readonly RootField[] {
  const { definitions } = parseOrEmpty(query);
  const operations = definitions.filter((definition) => definition.kind === Kind.OPERATION_DEFINITION);
  const operation = operations.find(({ name }) => name?.value === operationName) ?? operations[0];
  if (!operation) return [];
  const fragments = new Map(
    definitions.flatMap((definition) =>
      definition.kind === Kind.FRAGMENT_DEFINITION ? [[definition.name.value, definition]] : [],
    ),
  );
  const values = { ...variables };
  const fields: RootField[] = [];
  const isLeftOut = ({ directives = [] }: SelectionNode): boolean =>
    directives.some(({ name, arguments: [condition] = [] }) => {
      const value = condition && toValue(condition.value, values);
      return name.value === 'skip' ? value === true : name.value === 'include' && value === false;
    });
  const visitor: ASTVisitor = {
    VariableDefinition({ variable, defaultValue }) {
      if (defaultValue) values[variable.name.value] ??= toValue(defaultValue, {});
    },
    Field(field) {
      if (isLeftOut(field)) return false;
      const { name, arguments: nodes = [] } = field;
      const args = Object.fromEntries(nodes.map((node) => [node.name.value, toValue(node.value, values)]));
      fields.push({ name: name.value, args });
      return false;
    },
    InlineFragment: (fragment) => (isLeftOut(fragment) ? false : undefined),
    FragmentSpread(spread) {
      if (isLeftOut(spread)) return;
      const { value } = spread.name;
      const fragment = fragments.get(value);
      fragments.delete(value);
      if (fragment) visit(fragment, visitor);
    },
  };
  visit(operation, visitor);
  return fields;
}

function parseOrEmpty(query: string): Pick<DocumentNode, 'definitions'> {
  try {
    return parse(query);
  } catch {
    return { definitions: [] };
  }
}

/** The value of an argument. An integer beyond 2^53 becomes a string, which keeps its digits. */
function toValue(node: ValueNode, variables: Edited['variables']): unknown {
  const exact = visit(node, {
    IntValue: (int) => (Number.isSafeInteger(Number(int.value)) ? undefined : { kind: Kind.STRING, value: int.value }),
  });
  return valueFromASTUntyped(exact, variables);
}

/** For this schema, null is the same as an omitted value. The types of the client package allow only the latter. */
const toCode = (value: unknown): string => JSON.stringify(value, (_, part: unknown) => part ?? undefined);
const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const indent = (text: string): string => text.replaceAll('\n', '\n  ');
