import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseEnv } from 'node:util';
import { parser } from '@prometheus-io/lezer-promql';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { loadConfig } from '../../src/config.js';
import { findFreePort } from '../support/free-port.js';
import { createDatabase } from '../support/gateway.js';
import { describeWith, findProgram } from '../support/installed-program.js';
import { runSql } from '../support/sql.js';
import { makeCheckout, type Checkout } from './checkout.js';
import { listGuides, readDocument, type Block } from './markdown.js';
import { format, formatResponse, parseResponse, toPattern, type HttpResponse } from './matching.js';
import { openShell, type Shell } from './shell.js';
import { SITUATIONS } from './situations.js';

/** A block that a reader runs, with the variables of an operation and the response printed below it. */
interface Step {
  readonly block: Block;
  variables?: Block;
  answer?: Block;
}

/** Commands that need a container engine, a cluster or the published package. */
const NOT_RUN = /^(?:docker|kubectl|npm install) .*\n/gm;
const SERVER = /^.*\bnpm start$/m;
const REPLACED =
  /postgres:\/\/[^\s'"…]+:\d+\/\w+|redis:\/\/127\.0\.0\.1:6379|https:\/\/store\.example\.com|(?<=127\.0\.0\.1:|PORT=)4\d{3}\b/g;
const TSC = 'node_modules/.bin/tsc --ignoreConfig --noEmit --strict --skipLibCheck --types node';
const TSC_TARGET = '--target es2023 --lib es2024,dom --module nodenext';

/** Without the README of the example, which its own test runs in a browser. */
const guides = listGuides()
  .filter((path) => path !== 'examples/frontend/README.md')
  .map((path) => ({ path, steps: toSteps(readDocument(path).blocks) }))
  .filter(({ steps }) => steps.length > 0);

describeWith('curl', 'the guides print what their commands return', () => {
  let checkout: Checkout;
  beforeAll(async () => {
    checkout = await makeCheckout();
  });
  afterAll(() => checkout.remove());

  describe.each(guides)('$path', ({ steps }) => {
    let reader: Reader;
    beforeAll(async () => {
      reader = await openReader(steps, checkout);
    });
    afterAll(() => reader.close());

    it.each(steps.map((step) => ({ step, line: step.block.line, text: step.block.text.split('\n')[0] })))(
      'line $line: $text',
      async ({ step }) => {
        // Usage is written every five seconds.
        if (step.block.text.includes('keys -- usage')) await sleep(6_000);
        const actual = await reader.follow(step);
        if (!step.answer) return;
        const { text, varies, language } = step.answer;
        const printed = language === 'http' ? formatResponse(text, parseResponse(text)) : format(text);
        if (!toPattern(printed, varies).test(actual)) expect(actual).toBe(printed);
      },
    );
  });
});

/** Groups blocks with the responses below them. */
function toSteps(blocks: readonly Block[]): Step[] {
  const steps: Step[] = [];
  for (const block of blocks) {
    const { language, role, text } = block;
    const last = steps.at(-1);
    if (language === '' || block.isNotRun || text.replace(NOT_RUN, '') === '') continue;
    if (last && role === 'variables') last.variables = block;
    else if (last && (['json', 'jsonl', 'text'].includes(language) || text.startsWith('HTTP/'))) last.answer = block;
    else steps.push({ block });
  }
  return steps;
}

/** Runs the steps of one guide, in order. */
interface Reader {
  /** Runs a block and returns the output in the form of the response below it. */
  follow(step: Step): Promise<string>;
  close(): Promise<void>;
}

/** If a guide starts no server, one runs on port 4000 and `$KEY` holds one of its keys. */
async function openReader(steps: readonly Step[], checkout: Checkout): Promise<Reader> {
  const { directory } = checkout;
  await checkout.reset();
  const texts = steps.map(({ block }) => block.text).join('\n');
  const ports = new Map<string, string>();
  for (const [port] of `PORT=4000 ${texts}`.matchAll(REPLACED)) {
    if (/^4\d+$/.test(port) && !ports.has(port)) ports.set(port, String(await findFreePort()));
  }
  const store = `http://127.0.0.1:${ports.get('4000')}`;
  const database = await createDatabase();
  const toHere = (text: string): string =>
    text.replace(REPLACED, (printed) => {
      if (printed.startsWith('postgres:')) return database.url;
      if (printed.startsWith('redis:')) return inject('redisUrl') ?? printed;
      return ports.get(printed) ?? store;
    });
  const toPrinted = (text: string): string =>
    [...ports].reduce((rest, [printed, port]) => rest.replaceAll(`:${port}`, `:${printed}`), text);

  // Makes curl fail when the server refuses a request.
  await mkdir(join(directory, '.strict'), { recursive: true });
  await writeFile(join(directory, '.strict/.curlrc'), 'fail-with-body\n');
  const shell: Shell = await openShell(directory, {
    PORT: ports.get('4000') as string,
    STORE_URL: `${store}/graphql`,
    // The checkout already has its packages and its build. The cold-start test covers how they are made.
    npm_config_ignore_scripts: 'true',
  });
  if (!SERVER.test(texts)) {
    await shell.run('node dist/main.js');
    await shell.run(`export KEY=$(node -p 'JSON.parse(fs.readFileSync(".data/dev-keys.json")).business')`);
  }

  async function ask({ block, variables }: Step): Promise<HttpResponse> {
    const situation = block.given === undefined ? undefined : await SITUATIONS[block.given]?.();
    if (block.given !== undefined && !situation) throw new Error(`no such situation: ${block.given}`);
    const { url, key } = situation ?? { url: store, key: await shell.run('printf %s "$KEY"') };
    try {
      const { path, ...request } =
        block.language === 'http' ? toRequest(block.text, key) : toPost(block, variables, key);
      const response = await fetch(url + path, request);
      const { status, statusText, headers } = response;
      return { status: `${status} ${statusText}`, headers, body: await response.text() };
    } finally {
      await situation?.close();
    }
  }

  async function follow(step: Step): Promise<string> {
    const { block, answer } = step;
    const { language, text, line } = block;
    switch (language) {
      case 'sh': {
        const script = toHere(text.replace(NOT_RUN, '').replace('npm ci && ', ''));
        const strict = answer ? '' : join(directory, '.strict');
        const output = toPrinted(await shell.run(`export CURL_HOME=${strict}\n${script}`));
        return answer?.language === 'http' ? formatResponse(answer.text, parseResponse(output)) : format(output);
      }
      case 'graphql':
      case 'http': {
        const response = await ask(step);
        if (answer?.language === 'http') return formatResponse(answer.text, response);
        if (!answer) expect(response.body).not.toContain('"errors"');
        return format(response.body);
      }
      case 'ts':
      case 'js': {
        const file = `block-${line}.${language === 'ts' ? 'ts' : 'mjs'}`;
        await writeFile(join(directory, file), toHere(text));
        const compile = language === 'ts' ? `${TSC} ${TSC_TARGET} ${file}\n` : '';
        return format(await shell.run(`${compile}node --import tsx ${file}`));
      }
      case 'python':
      case 'go': {
        const [program, command, file] =
          language === 'go' ? ['go', 'go run', `block-${line}.go`] : ['python3', 'python3', `block-${line}.py`];
        if (!findProgram(program)) {
          const reason = `${program} is not installed: a block of ${language}`;
          if (process.env.CI === 'true') throw new Error(reason);
          console.warn(`skipped, ${reason}`);
          return format(answer?.text ?? '');
        }
        await writeFile(join(directory, file), toHere(text));
        return format(await shell.run(`${command} ${file}`));
      }
      case 'dotenv':
        loadConfig(parseEnv(text));
        return '';
      case 'sql':
        await runSql(inject('postgresUrl'), `BEGIN; CREATE ROLE animal_store; ${text} ROLLBACK`);
        return '';
      case 'yaml':
        for (const { errors } of parseAllDocuments(text)) expect(errors).toEqual([]);
        return '';
      case 'promql':
        parser.configure({ strict: true }).parse(text);
        return '';
      // A picture.
      case 'mermaid':
        return '';
      default:
        throw new Error(`nothing runs a block of ${language}`);
    }
  }

  return {
    follow,
    async close() {
      await shell.close();
      await database.drop();
    },
  };
}

type Request = RequestInit & { readonly path: string };

/** Inserts the variables as JSON text, so that their numbers stay exact. */
function toPost({ text }: Block, variables: Block | undefined, key: string): Request {
  const rest = variables ? `,"variables":${variables.text}` : '';
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` };
  return { path: '/graphql', method: 'POST', headers, body: `{"query":${JSON.stringify(text)}${rest}}` };
}

/** Parses a printed request: a line with method and path, headers, an empty line and the body. */
function toRequest(text: string, key: string): Request {
  const { status: requestLine, headers, body } = parseResponse(text.replaceAll('$KEY', key));
  const [method = '', path = ''] = requestLine.split(' ');
  return { path, method, headers, ...(body !== '' && { body }) };
}
