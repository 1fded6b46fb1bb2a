import { spawnSync } from 'node:child_process';
import type { Block } from './markdown.js';

/** A command of a shell block; it may span several lines. */
export interface Command {
  readonly text: string;
  /** Where it begins in its document, counted from 1. */
  readonly line: number;
  /** The status that it is said to exit with: `# exits with 1` behind it. */
  readonly exitCode: number;
}

/** What a reader does with one or several blocks of a document. */
export type Step =
  | { readonly kind: 'shell'; readonly block: Block; readonly answer?: Block; readonly commands: readonly Command[] }
  | { readonly kind: 'operation'; readonly block: Block; readonly answer?: Block; readonly variables?: Block }
  | { readonly kind: 'request'; readonly block: Block; readonly answer?: Block }
  | { readonly kind: 'program' | 'settings' | 'sql' | 'yaml' | 'promql'; readonly block: Block }
  /** Nothing that anybody knows how to run. */
  | { readonly kind: 'stray'; readonly block: Block };

const ANSWERS: Readonly<Record<string, readonly string[]>> = {
  shell: ['json', 'jsonl', 'http', 'text'],
  operation: ['json', 'http'],
  request: ['http'],
};

const KINDS: Readonly<Record<string, Exclude<Step['kind'], 'stray'>>> = {
  sh: 'shell',
  graphql: 'operation',
  http: 'request',
  ts: 'program',
  js: 'program',
  dotenv: 'settings',
  sql: 'sql',
  yaml: 'yaml',
  promql: 'promql',
};

/** Puts together what belongs together: a request and the answer that is printed as the next block. Blocks without a language are left out. */
export function toSteps(blocks: readonly Block[]): Step[] {
  const left = blocks.filter(({ language }) => language !== '');
  const steps: Step[] = [];
  for (let block = left.shift(); block; block = left.shift()) {
    const kind = isResponse(block) ? undefined : KINDS[block.language];
    const variables = kind === 'operation' && left[0]?.role === 'variables' ? left.shift() : undefined;
    const hasAnswer = kind !== undefined && left[0] !== undefined && isAnswer(left[0], ANSWERS[kind] ?? []);
    const parts = { block, ...(hasAnswer && { answer: left.shift() as Block }) };
    if (kind === undefined) steps.push({ kind: 'stray', block });
    else if (kind === 'shell') steps.push({ kind, ...parts, commands: splitCommands(block) });
    else if (kind === 'operation') steps.push({ kind, ...parts, ...(variables && { variables }) });
    else if (kind === 'request') steps.push({ kind, ...parts });
    else steps.push({ kind, block });
  }
  return steps;
}

function isAnswer(block: Block, languages: readonly string[]): boolean {
  return languages.includes(block.language) && (block.language !== 'http' || isResponse(block));
}

function isResponse({ language, text }: Block): boolean {
  return language === 'http' && text.startsWith('HTTP/');
}

/** Splits a shell block into commands, by asking the shell where one is complete. */
export function splitCommands({ text, line }: Pick<Block, 'text' | 'line'>): Command[] {
  const commands: Command[] = [];
  let lines: string[] = [];
  for (const [index, content] of text.split('\n').entries()) {
    if (lines.length === 0 && /^\s*(#|$)/.test(content)) continue;
    lines.push(content);
    const whole = lines.join('\n');
    if (content.endsWith('\\') || spawnSync('bash', ['-n', '-c', whole]).status !== 0) continue;
    commands.push({
      text: whole.replace(/\s+#[^'"]*$/, ''),
      line: line + index - lines.length + 1,
      exitCode: Number(/# exits with (\d+)$/.exec(whole)?.[1] ?? 0),
    });
    lines = [];
  }
  if (lines.length > 0) commands.push({ text: lines.join('\n'), line, exitCode: 0 });
  return commands;
}
