// Runs the Dockerfile without Docker: creates a folder for each stage, runs RUN, copies COPY, then runs CMD as USER.
//   node deploy/rehearse.mjs [--node PATH]     with another Node, for example the image's
// With DATABASE_URL, the program uses that server and may not write any file, as in a container with a read-only root
// (needs Node 24). Without it, the program uses its embedded store.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { DockerfileParser } from 'dockerfile-ast';

const { values: options } = parseArgs({ options: { node: { type: 'string', default: process.execPath } } });
const node = resolve(options.node);
const context = resolve(import.meta.dirname, '..');
const START_LIMIT_MS = 60_000;

const root = mkdtempSync(join(tmpdir(), 'rehearsal-'));
chmodSync(root, 0o755);
let child;
try {
  await rehearse();
} finally {
  child?.kill('SIGKILL');
  rmSync(root, { recursive: true, force: true });
}

async function rehearse() {
  const image = build(DockerfileParser.parse(readFileSync(join(context, 'Dockerfile'), 'utf8')));
  report(image);

  const port = await findFreePort();
  const { DATABASE_URL } = process.env;
  const env = { ...hostEnvironment(), ...image.env, PORT: String(port), ...(DATABASE_URL && { DATABASE_URL }) };
  const asUser = process.getuid?.() === 0 ? image.user : {};
  const [command, ...args] = image.command;
  const startedAt = performance.now();
  const flags = DATABASE_URL ? readOnlyFlags() : [];
  child = spawn(command, [...flags, ...args], { cwd: image.directory, env, ...asUser, stdio: ['ignore', 'pipe', 2] });
  const ended = new Promise((done) => child.once('exit', (code, signal) => done(signal ?? code)));
  while (!(await isReady(port))) {
    if (child.exitCode !== null) throw new Error(`CMD ended with ${child.exitCode}`);
    if (performance.now() - startedAt > START_LIMIT_MS) throw new Error('/readyz does not answer 200');
    await sleep(50);
  }
  const user = asUser.uid === undefined ? '' : ` as user ${asUser.uid}`;
  const writes = flags.length > 0 ? ', without any right to write files' : '';
  const startMs = performance.now() - startedAt;
  console.log(`${image.command.join(' ')}: /readyz answers 200 after ${startMs.toFixed(0)} ms${user}${writes}`);

  const [probe, ...words] = image.healthcheck;
  const check = () => spawnSync(probe, words, { env, stdio: ['ignore', 2, 2] }).status;
  assertEqual('the health check of a running program', check(), 0);
  child.kill('SIGTERM');
  assertEqual('the end after SIGTERM', await ended, 0);
  assertEqual('the health check of a stopped program', check(), 1);
}

/** Returns the flags that deny writes to files; none if this Node has no such flags. Node 26 also needs --allow-net. */
function readOnlyFlags() {
  const readOnly = ['--permission', '--allow-fs-read=*'];
  const candidates = [[...readOnly, '--allow-net'], readOnly];
  return candidates.find((flags) => spawnSync(node, [...flags, '-e', '']).status === 0) ?? [];
}

/** Runs the instructions and returns the last stage. */
function build(dockerfile) {
  const stages = new Map();
  let stage;
  for (const instruction of dockerfile.getInstructions()) {
    const words = instruction.getArguments().map((argument) => argument.getValue());
    switch (instruction.getKeyword()) {
      case 'FROM': {
        const name = instruction.getBuildStage() ?? 'last';
        stage = { root: join(root, name), directory: join(root, name), env: {} };
        mkdirSync(stage.directory);
        stages.set(name, stage);
        break;
      }
      case 'WORKDIR':
        stage.directory = join(stage.root, words[0]);
        mkdirSync(stage.directory, { recursive: true });
        break;
      case 'COPY': {
        const from = instruction.getFromFlag()?.getValue();
        copy(from ? stages.get(from).root : context, words, stage.directory);
        break;
      }
      case 'RUN':
        run(instruction.getRawArgumentsContent(), stage);
        break;
      case 'ENV':
        for (const property of instruction.getProperties()) stage.env[property.getName()] = property.getValue();
        break;
      case 'USER': {
        const [uid, gid] = words[0].split(':').map(Number);
        stage.user = { uid, gid };
        break;
      }
      case 'HEALTHCHECK':
        stage.healthcheck = JSON.parse(instruction.getRawArgumentsContent().replace(/^CMD /, ''));
        break;
      case 'CMD':
        stage.command = JSON.parse(instruction.getRawArgumentsContent());
        break;
      case 'ARG':
      case 'EXPOSE':
        break;
      default:
        throw new Error(`the rehearsal knows no ${instruction.getKeyword()}`);
    }
  }
  return stage;
}

function copy(from, words, directory) {
  const target = resolve(directory, words.at(-1));
  for (const name of words.slice(0, -1)) {
    const source = join(from, name);
    const into = words.at(-1).endsWith('/') || words.length > 2 ? join(target, basename(name)) : target;
    cpSync(source, into, { recursive: true });
  }
}

function run(command, { directory, env }) {
  const startedAt = performance.now();
  const { status } = spawnSync('sh', ['-ec', command], {
    cwd: directory,
    env: { ...hostEnvironment(), ...env },
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) throw new Error(`RUN ${command}: status ${status}`);
  console.log(`RUN ${command}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
}

/** Returns the variables that every container has, and npm's registry settings. */
function hostEnvironment() {
  const kept = Object.entries(process.env).filter(([name]) => /^(HOME|LANG|npm_config_(registry|cache))$/i.test(name));
  return { ...Object.fromEntries(kept), PATH: `${dirname(node)}${delimiter}${process.env.PATH}` };
}

function report({ directory }) {
  const { packages } = JSON.parse(readFileSync(join(directory, 'node_modules/.package-lock.json'), 'utf8'));
  // npm also lists the folder of the client package, which it does not link.
  const development = Object.entries(packages).filter(([name, { dev }]) => dev && name.startsWith('node_modules/'));
  assertEqual('packages that only development needs', development.map(([name]) => name).join(' '), '');
  const megabytes = (name) => (sizeOf(join(directory, name)) / 1e6).toFixed(1);
  console.log(
    `${Object.keys(packages).length} packages, ${megabytes('node_modules')} MB; in all ${megabytes('.')} MB on top of the base image`,
  );
}

function sizeOf(path) {
  const entries = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

function isReady(port) {
  return fetch(`http://127.0.0.1:${port}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  );
}

async function findFreePort() {
  const server = createServer();
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

function assertEqual(what, got, wanted) {
  if (got !== wanted) throw new Error(`${what}: ${got}, expected ${wanted}`);
  console.log(`${what}: ${got === '' ? 'none' : got}`);
}
