import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import ts from 'typescript';

/**
 * What the compiler says of a program that a document prints, as an application would compile it.
 * @param directory - a folder from which the package can be imported by its name
 */
export async function compile(directory: string, name: string, source: string): Promise<string[]> {
  const file = join(directory, name);
  await writeFile(file, source);
  const program = ts.createProgram([file], {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.NodeNext,
    lib: ['lib.es2024.d.ts', 'lib.dom.d.ts'],
    types: ['node'],
  });
  return ts.getPreEmitDiagnostics(program).map(({ file: where, start, messageText }) => {
    const line = where && start !== undefined ? where.getLineAndCharacterOfPosition(start).line + 1 : 0;
    return `line ${line} of the block: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
}
