import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { ConfigError, loadConfig, SETTINGS, type Config } from './config.js';

/**
 * Reads the settings of this process. Outside production, `.env` has those that are not set. Names that are probably
 * misspelt cause a warning on standard error.
 * @throws ConfigError
 */
export function loadEnvironment(): Config {
  const file = process.env.NODE_ENV !== 'production' && existsSync('.env') ? readEnvFile() : {};
  const env: NodeJS.ProcessEnv = { ...file, ...process.env };
  for (const name of Object.keys(env)) {
    const meant = findMeant(name);
    if (meant !== undefined) console.error(`animal-store-gateway: ${name} is no setting: did you mean ${meant}?`);
  }
  addSecrets(env);
  return loadConfig(env);
}

/** A setting, a comment or an empty line of `.env`. Only a value in quotes may have several lines. */
const STATEMENT =
  /[ \t]*(?:(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=((?![ \t]*["'`])[^\n]*|[ \t]*(?:"[^"]*"|'[^']*'|`[^`]*`)[ \t]*(?:#[^\n]*)?)|#[^\n]*)?(?:\n|$)/gy;

function readEnvFile(): NodeJS.ProcessEnv {
  const text = readText('.env', '.env').replace(/\r\n?/g, '\n');
  const env = {};
  const rest = text.replace(STATEMENT, (_, name: string | undefined, value: string) => {
    if (name !== undefined) Object.assign(env, parseEnv(`${name}=${value.trim()}\n`));
    return '';
  });
  if (rest === '') return env;
  const line = text.slice(0, -rest.length).split('\n').length;
  throw new ConfigError(`line ${line} of .env cannot be read: it must be NAME=value or a comment`);
}

/** Adds the URLs that are in files, such as secrets that a container has mounted. */
function addSecrets(env: NodeJS.ProcessEnv): void {
  for (const name of ['DATABASE_URL', 'REDIS_URL']) {
    const file = env[`${name}_FILE`];
    if (!file) continue;
    if (env[name]) throw new ConfigError(`${name} and ${name}_FILE are both set: unset one of them`);
    const subject = `${name}_FILE ${JSON.stringify(file)}`;
    const secret = readText(file, subject).trim();
    if (secret === '') throw new ConfigError(`${subject} is empty: it must hold a URL`);
    env[name] = secret;
  }
}

/** Reads a text, without the byte order mark that some editors begin it with. */
function readText(file: string, subject: string): string {
  try {
    return readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    throw new ConfigError(`${subject} cannot be read: ${(error as Error).message}`);
  }
}

/** Settings that other programs use too. Names like them are theirs. */
const COMMON = ['PORT', 'HOST', 'MCP'];

/** Finds the setting that a name which is none was probably meant to be. */
function findMeant(name: string): string | undefined {
  if (SETTINGS.includes(name)) return undefined;
  const upper = name.toUpperCase();
  return SETTINGS.find((setting) => {
    if (upper === setting || COMMON.includes(setting)) return upper === setting;
    // Kubernetes sets DATABASE_PORT for a service that is named "database".
    if (upper.endsWith('_PORT') && !setting.endsWith('_PORT')) return false;
    // Without its last part, such as the unit, or in a file.
    if ((setting.startsWith(`${upper}_`) && upper.includes('_')) || upper === `${setting}_FILE`) return true;
    return isSimilar(upper, setting, 2);
  });
}

/** How many characters an edit takes of each text. */
const EDITS = [
  [1, 0],
  [0, 1],
  [1, 1],
] as const;

/** Whether one text becomes the other when so many characters are added, removed or replaced. */
function isSimilar(a: string, b: string, edits: number): boolean {
  if (a === b) return true;
  if (edits === 0) return false;
  let at = 0;
  while (a[at] === b[at]) at += 1;
  return EDITS.some(([inA, inB]) => isSimilar(a.slice(at + inA), b.slice(at + inB), edits - 1));
}

/** Returns the keys command in a form that works in the folder where this process was started. */
export function findKeysCommand(): string {
  // With npm, the script could also be one of another package.
  if (process.env.npm_package_name === 'animal-store-gateway') return 'npm run --silent keys --';
  const file = relative('', fileURLToPath(new URL('cli/keys.js', import.meta.url)));
  return `node ${/[^\w./\\-]/.test(file) ? `"${file}"` : file}`;
}
