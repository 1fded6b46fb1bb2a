import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { ConfigError, loadConfig, type Config } from './config.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads the settings of this process. Outside production, `.env` has those that are not set. */
export function loadEnvironment(): Config {
  if (process.env.NODE_ENV === 'production') return loadConfig(withSecrets(process.env));
  const file = existsSync('.env') ? parseEnv(readText('.env', '.env')) : {};
  return loadConfig(withSecrets({ ...file, ...process.env }));
}

/** Adds the URLs that are in files, such as secrets that a container has mounted. */
function withSecrets(env: Environment): Environment {
  const secrets: Record<string, string> = {};
  for (const name of ['DATABASE_URL', 'REDIS_URL']) {
    const file = env[`${name}_FILE`];
    if (!file) continue;
    if (env[name]) throw new ConfigError(`${name} and ${name}_FILE are both set: unset one of them`);
    const subject = `${name}_FILE ${JSON.stringify(file)}`;
    const secret = readText(file, subject).trim();
    if (secret === '') throw new ConfigError(`${subject} is empty: it must hold a URL`);
    secrets[name] = secret;
  }
  return { ...env, ...secrets };
}

function readText(file: string, subject: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new ConfigError(`${subject} cannot be read: ${(error as Error).message}`);
  }
}

/** Returns the keys command in the form in which this process was started: by npm, by npx or directly. */
export function findKeysCommand(): string {
  const { npm_command: command, npm_config_package: file, npm_lifecycle_event: script } = process.env;
  // Without the file that `npx --package` named, npx would ask the registry for a package of this name.
  if (command === 'exec') return `npx ${file ? `--package ${file} ` : ''}animal-store-gateway keys`;
  return script === undefined
    ? `node ${relative('', join(dirname(fileURLToPath(import.meta.url)), 'cli/keys.js'))}`
    : 'npm run --silent keys --';
}
