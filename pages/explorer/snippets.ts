import { Kind, parse, valueFromASTUntyped, visit, type FieldNode, type ValueNode } from 'graphql';

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

/** The operation as calls of the client package. Fields that the client does not have are left out. */
export function toClientCode(url: string, { query, operationName, variables, headers }: Edited): string {
  const idempotencyKey = headers['Idempotency-Key'];
  const calls = readRootFields(query, operationName).flatMap(({ name, arguments: nodes = [] }) => {
    const args: Record<string, unknown> = Object.fromEntries(
      nodes.map((node) => [node.name.value, toValue(node.value, variables)]),
    );
    const addOptions = idempotencyKey === undefined ? '' : `, ${JSON.stringify({ idempotencyKey })}`;
    switch (name.value) {
      case 'pets':
        return `client.list(${JSON.stringify(args)})`;
      case 'pet':
        return `client.get(${JSON.stringify(args.id)})`;
      case 'addPet':
        return `client.add(${JSON.stringify(args.input)}${addOptions})`;
      default:
        return [];
    }
  });
  return `import { createPetClient } from 'animal-store-client';

const client = createPetClient({ url: ${JSON.stringify(url)}, key: 'YOUR_KEY' });
${calls.map((call) => `console.log(await ${call});`).join('\n')}`;
}

function readRootFields(query: string, operationName: string | undefined): readonly FieldNode[] {
  try {
    const operations = parse(query).definitions.filter((definition) => definition.kind === Kind.OPERATION_DEFINITION);
    const operation = operations.find(({ name }) => name?.value === operationName) ?? operations[0];
    if (!operation) return [];
    return operation.selectionSet.selections.filter((selection) => selection.kind === Kind.FIELD);
  } catch {
    return [];
  }
}

/** The value of an argument. An integer beyond 2^53 becomes a string, which keeps its digits. */
function toValue(node: ValueNode, variables: Edited['variables']): unknown {
  const exact = visit(node, {
    IntValue: (int) => (Number.isSafeInteger(Number(int.value)) ? undefined : { kind: Kind.STRING, value: int.value }),
  });
  return valueFromASTUntyped(exact, variables);
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const indent = (text: string): string => text.replaceAll('\n', '\n  ');
