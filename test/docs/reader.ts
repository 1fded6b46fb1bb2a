import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parser } from '@prometheus-io/lezer-promql';
import { expect, inject } from 'vitest';
import { parseAllDocuments } from 'yaml';
import pg from 'pg';
import { loadConfig } from '../../src/config.js';
import { createDatabase } from '../support/gateway.js';
import { findException } from './exceptions.js';
import type { Block } from './markdown.js';
import { compareHttp, compareJson, compareJsonLines, compareText, parseResponse, type Comparison } from './matching.js';
import { compile } from './programs.js';
import { sendOperation, sendRequest, type Answer } from './requests.js';
import { SITUATIONS } from './situations.js';
import { createStandIns } from './stand-ins.js';
import type { Command, Step } from './steps.js';
import { openTerminal } from './terminal.js';

/** Somebody who goes through a document from its top, and does what it says. */
export interface Reader {
  /** Fails with the place in the document. */
  follow(step: Step): Promise<void>;
  close(): Promise<void>;
}

/** Commands that go on until they are told to end. */
const SERVER = /(?:^|\s)(?:npm start|npm run dev|npx animal-store-gateway)$/;
const DEVELOPMENT_KEY = `node -p 'JSON.parse(fs.readFileSync(".data/dev-keys.json")).business'`;

/**
 * @param steps - those of the whole document: one that starts no server finds one on port 4000, and `KEY` set to a key of it
 * @param directory - the project, built; its store is begun anew
 */
export async function openReader(steps: readonly Step[], directory: string): Promise<Reader> {
  const cleanups: (() => Promise<void>)[] = [];
  await rm(join(directory, '.data'), { recursive: true, force: true });
  const standIns = createStandIns({
    redisUrl: inject('redisUrl'),
    async createDatabase() {
      const { url, drop } = await createDatabase();
      cleanups.unshift(drop);
      return url;
    },
  });
  const terminal = openTerminal(directory, {
    PORT: String(await standIns.port(4000)),
    // The checkout is built: the scripts that npm runs before another would build it again. cold-start.test.ts runs them.
    npm_config_ignore_scripts: 'true',
    STORE_URL: `http://127.0.0.1:${await standIns.port(4000)}/graphql`,
  });
  if (steps.some(asksServer) && !steps.some(startsServer)) {
    await terminal.serve('node dist/bundle/main.js');
    await terminal.run(`KEY=$(${DEVELOPMENT_KEY})`);
  }

  async function type({ text, exitCode }: Command, document: string): Promise<string> {
    const exception = findException(document, text);
    if (exception && exception.instead === undefined) return '';
    const command = await standIns.toHere(exception?.instead ?? text);
    if (SERVER.test(command)) return standIns.toDocument(await terminal.serve(command));
    const ended = await terminal.run(command);
    expect(ended.exitCode, `${command}\n${ended.stderr}`).toBe(exitCode);
    return standIns.toDocument(ended.stdout);
  }

  // Where no answer is printed, curl has to fail by itself when it is refused.
  await mkdir(join(directory, '.strict'), { recursive: true });
  await writeFile(join(directory, '.strict/.curlrc'), 'fail-with-body\n');

  async function typeAll({ block, answer, commands }: Extract<Step, { kind: 'shell' }>): Promise<void> {
    await terminal.run(`CURL_HOME=${answer ? '' : join(directory, '.strict')}`);
    let stdout = '';
    for (const command of commands) {
      stdout += await at(`${block.document}:${command.line}`, () => type(command, block.document));
    }
    if (answer) check(answer, compareOutput(answer, stdout));
  }

  /** Where a request goes: to the server of its situation, or to the one of the document. */
  async function ask(block: Block, send: (url: string, key: string) => Promise<Answer>): Promise<Answer> {
    if (block.given === undefined) {
      return send(`http://127.0.0.1:${await standIns.port(4000)}`, await terminal.variable('KEY'));
    }
    const make = SITUATIONS[block.given];
    if (!make) throw new Error(`no such situation: ${block.given}`);
    const situation = await make();
    try {
      return await send(situation.url, situation.key);
    } finally {
      await situation.close();
    }
  }

  async function runProgram({ language, line, text }: Block): Promise<void> {
    const source = await standIns.toHere(text);
    const name = `block-${line}.${language === 'ts' ? 'ts' : 'mjs'}`;
    if (language === 'ts') expect(await compile(directory, name, source)).toEqual([]);
    else await writeFile(join(directory, name), source);
    const { exitCode, stderr } = await terminal.run(`node --import tsx ${name}`);
    expect(exitCode, stderr).toBe(0);
  }

  async function follow(step: Step): Promise<void> {
    const { block } = step;
    switch (step.kind) {
      case 'shell':
        return typeAll(step);
      case 'operation': {
        const answer = await ask(block, (url, key) => sendOperation(url, key, block.text, step.variables?.text));
        if (step.answer) check(step.answer, compareAnswer(step.answer, answer));
        else expect(answer.body).not.toContain('"errors"');
        return;
      }
      case 'request': {
        const answer = await ask(block, (url, key) => sendRequest(url, key, block.text));
        if (!step.answer) throw new Error('a request without its answer shows nothing');
        check(step.answer, compareAnswer(step.answer, answer));
        return;
      }
      case 'program':
        return runProgram(block);
      case 'settings':
        loadConfig(
          Object.fromEntries(block.text.split('\n').map((line) => line.split(/=(.*)/).slice(0, 2) as [string, string])),
        );
        return;
      case 'sql':
        return runSql(block.text);
      case 'yaml':
        for (const { errors } of parseAllDocuments(block.text)) expect(errors).toEqual([]);
        return;
      case 'promql':
        expect(parser.configure({ strict: true }).parse(block.text).topNode.name).toBe('PromQL');
        return;
      case 'stray':
        throw new Error(`nobody knows how to run this ${block.language} block: ${block.text.slice(0, 60)}`);
      default:
        return step satisfies never;
    }
  }

  return {
    follow: (step) => at(`${step.block.document}:${step.block.line}`, () => follow(step)),
    async close() {
      await terminal.close();
      for (const cleanup of cleanups) await cleanup();
    },
  };
}

/** Tells whether a step may need the server on port 4000. */
function asksServer({ kind, block }: Step): boolean {
  return ['shell', 'program', 'operation', 'request'].includes(kind) && block.given === undefined;
}

function startsServer(step: Step): boolean {
  return (
    step.kind === 'shell' &&
    step.commands.some(({ text }) => SERVER.test(findException(step.block.document, text)?.instead ?? text))
  );
}

function compareOutput({ language, text, varies }: Block, stdout: string): Comparison {
  if (language === 'json') return compareJson(text, stdout, varies);
  if (language === 'jsonl') return compareJsonLines(text, stdout, varies);
  return language === 'http' ? compareHttp(text, parseResponse(stdout), varies) : compareText(text, stdout, varies);
}

function compareAnswer({ language, text, varies }: Block, answer: Answer): Comparison {
  return language === 'http' ? compareHttp(text, answer, varies) : compareJson(text, answer.body, varies);
}

function check({ document, line }: Block, { expected, actual }: Comparison): void {
  expect(actual, `the answer at ${document}:${line}`).toEqual(expected);
}

async function at<T>(place: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && !error.message.startsWith('At ')) error.message = `At ${place}: ${error.message}`;
    throw error;
  }
}

/** Runs SQL on the server of this test run as somebody who may do anything, and undoes it; roles that it alters are there. */
async function runSql(text: string): Promise<void> {
  const client = new pg.Client({ connectionString: inject('postgresUrl') });
  await client.connect();
  try {
    await client.query('BEGIN');
    for (const [, role] of text.matchAll(/ALTER ROLE (\w+)/g)) await client.query(`CREATE ROLE ${role}`);
    await client.query(text);
    await client.query('ROLLBACK');
  } finally {
    await client.end();
  }
}
