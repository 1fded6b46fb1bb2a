import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { USER_ENVIRONMENT } from '../support/user-environment.js';

/** A Bash session. Variables persist between scripts, and servers keep running in the background. */
export interface Shell {
  /**
   * Runs a script and returns what it prints.
   * A line that ends with `npm start` starts a server; the next line runs once it listens.
   * A comment `# exits with 1` after a command states its exit status.
   * @throws Error when a command fails
   */
  run(script: string): Promise<string>;
  /** Stops the servers and the session. */
  close(): Promise<void>;
}

/** Bash functions. `await_server` waits until a server listens and prints its output without npm and log lines. */
const PRELUDE = String.raw`
set -E
trap 'echo "failed: $BASH_COMMAND" >&2; failed=1' ERR
trap : TERM
await_server() {
  until grep -q 'listening on' "$2"; do
    if ! kill -0 "$1" 2>/dev/null; then cat "$2" "$2.err" >&2; return 1; fi
    sleep 0.1
  done
  grep -v '^[>{]' "$2"
}
`;
const SERVER = /^(.*\bnpm start|node dist\/main\.js)$/gm;
const DONE = '\n--done--';

export async function openShell(directory: string, env: Readonly<Record<string, string>>): Promise<Shell> {
  const files = await mkdtemp(join(tmpdir(), 'shell-'));
  const bash = spawn('bash', [], {
    cwd: directory,
    env: { ...USER_ENVIRONMENT, ...env },
    detached: true,
    stdio: 'pipe',
  });
  const ended = once(bash, 'close');
  const killAll = (): void => void process.kill(-(bash.pid as number), 'SIGKILL');
  process.once('exit', killAll);
  let stdout = '';
  let stderr = '';
  let onOutput = (): void => undefined;
  bash.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  bash.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    onOutput();
  });
  bash.stdin.write(PRELUDE);
  let servers = 0;

  async function run(script: string): Promise<string> {
    stdout = stderr = '';
    const file = join(files, 'script');
    const toBackground = (command: string): string => {
      const log = join(files, `server-${++servers}`);
      return `(trap : TERM; ${command}) >${log} 2>${log}.err </dev/null &\nawait_server $! ${log}`;
    };
    await writeFile(
      file,
      script.replace(SERVER, toBackground).replace(/^(.*) # exits with (\d+)$/gm, '{ $1; } || [ $? -eq $2 ]'),
    );
    const done = new Promise<void>((resolve) => {
      onOutput = () => {
        if (stdout.includes(DONE)) resolve();
      };
    });
    bash.stdin.write(`failed=; source ${file} </dev/null; printf '${DONE.replace('\n', '\\n')}%s' "$failed"\n`);
    await Promise.race([done, ended]);
    const [output = '', failed] = stdout.split(DONE);
    if (failed !== '') throw new Error(`${script}\n${stderr}${output}`);
    return output;
  }

  return {
    run,
    async close() {
      process.kill(-(bash.pid as number), 'SIGTERM');
      bash.stdin.end('wait\n');
      await ended;
      process.off('exit', killAll);
      await rm(files, { recursive: true, force: true });
    },
  };
}
