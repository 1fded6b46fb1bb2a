import { existsSync, readFileSync } from 'node:fs';
import { DockerfileParser, type Copy, type JSONInstruction } from 'dockerfile-ast';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config.js';

const readText = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
const text = readText('Dockerfile');
const dockerfile = DockerfileParser.parse(text);
const { start } = [...text.matchAll(/^FROM /gm)].map(({ index }) => ({ start: index })).at(-1) as { start: number };
const lastStage = DockerfileParser.parse(text.slice(start));

describe('the Dockerfile', () => {
  it('copies files that exist, and .dockerignore admits nothing else to the build', () => {
    const allowed = readText('.dockerignore')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    expect(allowed.shift()).toBe('*');
    const wanted = dockerfile
      .getCOPYs()
      .filter((copy) => copy.getFromFlag() === null)
      .flatMap(sourcesOf);
    expect(allowed.sort()).toEqual([...new Set(wanted.map((name) => `!${name}`))].sort());
    for (const name of wanted) expect(existsSync(new URL(`../../${name}`, import.meta.url)), name).toBe(true);
  });

  it('starts the compiled program, without a shell', () => {
    const command = wordsOf('CMD');
    const path = command.at(-1) ?? '';
    expect(command[0]).toBe('node');
    const source = path.replace('dist/', 'src/').replace(/js$/, 'ts');
    expect(existsSync(new URL(`../../${source}`, import.meta.url)), source).toBe(true);
  });

  it('runs as a user other than root, on all interfaces, with a health check', () => {
    const user = lastStage.getInstructions().find((instruction) => instruction.getKeyword() === 'USER');
    expect(user?.getArgumentsContent()).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    const { host, port, production } = loadConfig(environment());
    expect({ host, production }).toEqual({ host: '0.0.0.0', production: true });
    const expose = lastStage.getInstructions().find((instruction) => instruction.getKeyword() === 'EXPOSE');
    expect(expose?.getArgumentsContent()).toBe(String(port));
    expect(lastStage.getHEALTHCHECKs()).toHaveLength(1);
  });
});

function sourcesOf(copy: Copy): string[] {
  return copy
    .getArguments()
    .map((argument) => argument.getValue())
    .slice(0, -1);
}

function wordsOf(keyword: string): string[] {
  const found = lastStage.getInstructions().find((instruction) => instruction.getKeyword() === keyword);
  return (found as JSONInstruction).getJSONStrings().map((word) => JSON.parse(word.getValue()) as string);
}

function environment(): Record<string, string> {
  const properties = lastStage.getENVs().flatMap((env) => env.getProperties());
  return Object.fromEntries(properties.map((property) => [property.getName(), property.getValue() ?? '']));
}
