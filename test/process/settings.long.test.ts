import { mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { linesOf, makePlace, type Place } from '../support/process.js';

const LOOPBACK = '127.0.0.1';

describe('a start that cannot succeed', () => {
  let place: Place;
  let taken: Server;
  let port: number;

  beforeAll(async () => {
    place = await makePlace();
    taken = createServer((socket) => socket.destroy());
    await new Promise<void>((ready) => taken.listen(0, LOOPBACK, ready));
    ({ port } = taken.address() as AddressInfo);
    await writeFile(join(place.directory, 'file'), '');
    await writeFile(join(place.directory, 'list.json'), '["{ pets { id } }"]');
    await writeFile(join(place.directory, 'syntax-error.json'), '{"1":"{ pets {"}');
  });
  afterAll(async () => {
    await new Promise((closed) => taken.close(closed));
    await place.close();
  });

  /** Expects one line on standard error, no announcement and exit status 1; returns the line. */
  async function refusal(env: Record<string, string>): Promise<string> {
    const { code, stdout, stderr } = await place.run(env);
    expect([code, linesOf(stderr).length]).toEqual([1, 1]);
    expect(stdout).not.toContain('listening');
    return stderr;
  }

  it.each([
    ['PORT', '65536'],
    ['DATABASE_URL', 'mysql://root:geheim@127.0.0.1/animals'],
    ['NODE_ENV', 'prod'],
    ['HOST', ' '],
    ['DATA_DIR', ' '],
    ['KEYS_ACTOR', ' '],
    ['LOG_LEVEL', 'loud'],
    ['DATA_DIR', 'file'],
    ['TRUSTED_DOCUMENTS', 'missing.json'],
    ['TRUSTED_DOCUMENTS', 'file'],
    ['TRUSTED_DOCUMENTS', 'list.json'],
    ['TRUSTED_DOCUMENTS', 'syntax-error.json'],
    ['TRUSTED_DOCUMENTS_ONLY', 'report'],
  ])('is refused in one line that names the variable: %s=%s', async (name, value) => {
    const line = await refusal({ PORT: '0', [name]: value });
    expect(line).toMatch(new RegExp(`\\b${name}\\b`));
    expect(line).not.toContain('geheim');
  });

  it('is refused in one line without the password if two backends are set', async () => {
    const line = await refusal({
      PORT: '0',
      DATABASE_URL: `postgres://me:geheim@${LOOPBACK}:${port}/animals`,
      UPSTREAM_URL: 'https://animals.example.com/v1',
    });
    expect(line).toMatch(/UPSTREAM_URL.*DATABASE_URL/);
    expect(line).not.toContain('geheim');
  });

  it('is refused in one line if a file with a URL cannot be read, or is named in addition to the URL', async () => {
    expect(await refusal({ PORT: '0', DATABASE_URL_FILE: 'missing' })).toMatch(/DATABASE_URL_FILE "missing" cannot be/);
    await writeFile(join(place.directory, 'empty'), '\n');
    expect(await refusal({ PORT: '0', DATABASE_URL_FILE: 'empty' })).toMatch(/DATABASE_URL_FILE "empty" is empty/);
    const both = { REDIS_URL: 'redis://127.0.0.1', REDIS_URL_FILE: 'file' };
    expect(await refusal({ PORT: '0', ...both })).toMatch(/REDIS_URL and REDIS_URL_FILE are both set/);
  });

  it('is refused in one line if the server gets an argument', async () => {
    const { code, stdout, stderr } = await place.run({ PORT: '0' }, ['--nonsense']);
    expect([code, linesOf(stderr).length]).toEqual([1, 1]);
    expect(stdout).not.toContain('listening');
    expect(stderr).toContain('unexpected argument "--nonsense"');
  });

  it('is refused in one line if the port is in use', async () => {
    const line = await refusal({ PORT: String(port), DATABASE_URL: await place.database() });
    expect(line).toMatch(new RegExp(`PORT ${port}\\b.*already in use`));
  });

  it('is refused in one line if the address is not one of this machine', async () => {
    const line = await refusal({ PORT: '0', HOST: '192.0.2.1', DATABASE_URL: await place.database() });
    expect(line).toContain('HOST 192.0.2.1');
  });

  it('is refused in one line without the password if the database is unreachable', async () => {
    const line = await refusal({
      PORT: '0',
      DATABASE_URL: `postgres://me:geheim@${LOOPBACK}:${port}/animals`,
      START_TIMEOUT_MS: '0',
    });
    expect(line).toContain('DATABASE_URL');
    expect(line).not.toContain('geheim');
  });

  it('is refused in one line without the password if the database rejects the password', async () => {
    const url = new URL(await place.database());
    url.pathname = '/no_such_database';
    url.password = 'geheim';
    const line = await refusal({ PORT: '0', DATABASE_URL: url.href });
    expect(line).toContain('DATABASE_URL');
    expect(line).not.toContain('geheim');
  });

  it('is refused in one line by the keys command too', async () => {
    const { code, stdout, stderr } = await place.keys(['list'], { DATABASE_POOL: 'many' });
    expect(code).not.toBe(0);
    expect(stdout).toBe('');
    expect(linesOf(stderr)).toEqual([expect.stringContaining('DATABASE_POOL')]);
  });
});

it.each([
  ['DATABASE_URL', 'postgres://me:geheim@127.0.0.1:1/animals'],
  ['REDIS_URL', 'redis://:geheim@127.0.0.1:1'],
])('a start without the server that %s_FILE names is refused with that name', async (name, url) => {
  const place = await makePlace();
  await writeFile(join(place.directory, 'url'), url);
  const env = { PORT: '0', [`${name}_FILE`]: 'url', START_TIMEOUT_MS: '0' };
  const { stderr } = await place.run(env);
  expect(linesOf(stderr)).toEqual([expect.stringContaining(`${name}_FILE names a`)]);
  if (name === 'DATABASE_URL') {
    const keys = await place.keys(['list'], env);
    expect(linesOf(keys.stderr).at(-1)).toContain('DATABASE_URL_FILE names a database that is not available');
  }
  await place.close();
});

it('DATABASE_URL_FILE names a file with the URL', async () => {
  const place = await makePlace();
  await writeFile(join(place.directory, 'database-url'), `${await place.database()}\n`);
  const program = await place.start({ PORT: '0', DATABASE_URL_FILE: 'database-url', NODE_ENV: 'production' });
  expect(await (await program.fetch('/readyz')).json()).toMatchObject({ backend: 'available' });
  await place.close();
});

describe('a name that is no setting', () => {
  let place: Place;

  beforeAll(async () => {
    place = await makePlace();
  });
  afterAll(() => place.close());

  it.each([
    ['DATABSE_URL', 'DATABASE_URL'],
    ['DATABASE_ULR', 'DATABASE_URL'],
    ['REDIS_URLS', 'REDIS_URL'],
    ['REDISURL', 'REDIS_URL'],
    ['NODE_EVN', 'NODE_ENV'],
    ['CORS_ORIGIN', 'CORS_ORIGINS'],
    ['Max_Batch', 'MAX_BATCH'],
    ['TRUSTED_DOCUMENT_ONLY', 'TRUSTED_DOCUMENTS_ONLY'],
    ['DATABASE_URL_FIEL', 'DATABASE_URL_FILE'],
    ['START_TIMEOUT', 'START_TIMEOUT_MS'],
    ['MAX_BODY', 'MAX_BODY_BYTES'],
    ['METRIC_PORT', 'METRICS_PORT'],
    ['UPSTREAM_URL_FILE', 'UPSTREAM_URL'],
  ])('causes a warning with the setting that was probably meant: %s', async (name, meant) => {
    const { stderr } = await place.run({ [name]: 'geheim', PORT: 'wrong' });
    expect(linesOf(stderr)).toEqual([
      `animal-store-gateway: ${name} is no setting: did you mean ${meant}?`,
      expect.stringContaining('PORT must be'),
    ]);
  });

  it('causes a warning in .env and in commands too', async () => {
    await writeFile(join(place.directory, '.env'), 'DATABSE_URL=geheim\n');
    const { stderr } = await place.migrate(['--check']);
    expect(linesOf(stderr)[0]).toBe('animal-store-gateway: DATABSE_URL is no setting: did you mean DATABASE_URL?');
    expect(stderr).not.toContain('geheim');
    await rm(join(place.directory, '.env'));
  });

  it('causes no warning if other programs use it', async () => {
    const names =
      'PATH HOME USER SHELL TERM LANG PWD OLDPWD SHLVL LOGNAME MAIL TZ TMPDIR EDITOR DISPLAY HOSTNAME HOSTTYPE HOSTS ' +
      'PORTS NODE_OPTIONS NODE_PATH NODE_VERSION npm_command npm_config_cache npm_config_loglevel npm_package_name ' +
      'npm_lifecycle_event INIT_CWD COLOR CI DEBUG LS_COLORS SSH_AUTH_SOCK XDG_DATA_DIRS XDG_RUNTIME_DIR ' +
      'KUBERNETES_PORT KUBERNETES_SERVICE_HOST REDIS_PORT REDIS_HOST REDIS_PASSWORD DATABASE_HOST DATABASE_PORT ' +
      'DATABASE_NAME DATABASE_USER DB_URL PGHOST PGPORT LOG_FORMAT LOG_FILE HTTP_PROXY NO_PROXY OTEL_EXPORTER_OTLP_ENDPOINT VITE_URL _';
    const { stderr } = await place.run({
      ...Object.fromEntries(names.split(' ').map((name) => [name, 'x'])),
      PORT: 'wrong',
      PATH: process.env.PATH ?? '',
      NODE_OPTIONS: '',
    });
    expect(linesOf(stderr)).toEqual([expect.stringContaining('PORT must be')]);
  });
});

describe('a .env file in the working directory', () => {
  let place: Place;

  beforeAll(async () => {
    place = await makePlace();
  });
  afterAll(() => place.close());

  it('sets variables that the environment does not set, in development', async () => {
    await writeFile(join(place.directory, '.env'), `# settings\nPORT=1\nDATABASE_URL="${await place.database()}"\n`);
    const program = await place.start({ PORT: '0' });
    const { stdout } = await place.keys(['create', '--plan', 'pro', '--json']);
    expect(await program.graphql('{ rateLimit { plan } }', JSON.parse(stdout).key as string)).toEqual({
      data: { rateLimit: { plan: 'PRO' } },
    });

    await writeFile(join(place.directory, '.env'), 'MAX_BATCH=lots\n');
    const { code, stderr } = await place.run({ PORT: '0' });
    expect(code).toBe(1);
    expect(linesOf(stderr)).toEqual([expect.stringContaining('MAX_BATCH')]);
  });

  it('is not read in production', async () => {
    await writeFile(join(place.directory, '.env'), 'MAX_BATCH=lots\n');
    const program = await place.start({ PORT: '0', NODE_ENV: 'production', DATABASE_URL: await place.database() });
    expect((await program.fetch('/readyz')).status).toBe(200);
  });

  it('is read without the byte order mark, with Windows line ends, quotes over several lines and export', async () => {
    const url = await place.database();
    const lines = [
      `\uFEFFDATABASE_URL=${url}`,
      "# it's a comment",
      'export  PORT = 0 # any',
      '\tMAX_BATCH=1',
      `KEYS_ACTOR="one`,
      `two"`,
    ];
    await writeFile(join(place.directory, '.env'), lines.join('\r\n'));
    const broken = await place.run({});
    expect(linesOf(broken.stderr)).toEqual([expect.stringMatching(/KEYS_ACTOR must be .*"one\\ntwo"/)]);

    const program = await place.start({ KEYS_ACTOR: 'me' });
    expect(await (await program.fetch('/readyz')).json()).toEqual({ status: 'ready', backend: 'available' });
    expect(await place.keys(['create', '--plan', 'pro'])).toMatchObject({ code: 1 });
    const { stdout } = await place.keys(['create', '--plan', 'pro', '--json'], { KEYS_ACTOR: 'me' });
    const batch = await program.fetch('/graphql', {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Authorization: `Bearer ${(JSON.parse(stdout) as { key: string }).key}`,
      },
      body: '[{"query":"{ __typename }"},{"query":"{ __typename }"}]',
    });
    expect(batch.status).toBe(400);
  });

  it.each([
    ['a name without a value', '# a comment\nPORT=0\n\nDATABASE_URL geheim\n', 4],
    ['a name with spaces', 'PORT=0\nMY SECRET=geheim\n', 2],
    ['a name with a hyphen', 'DATABASE-URL=geheim\n', 1],
    ['a colon', 'PORT: geheim\n', 1],
    ['a quote that is not closed', 'PORT=0\nDATABASE_URL="geheim\nMAX_BATCH=1\n', 2],
    ['something after a quote', 'DATABASE_URL="geheim" too\n', 1],
    ['a line after apostrophes in a comment', "# don't\ngeheim\nDATA_DIR='x'\n", 2],
    ['a line after a quote over several lines', 'A="x\ny"\ngeheim\n', 3],
    ['lines that end with a carriage return', 'PORT=0\rgeheim\r', 2],
    ['UTF-16', '\u0000P\u0000O\u0000R\u0000T=0', 1],
  ])('stops the start with the number of a line that cannot be read, without its text: %s', async (_, text, line) => {
    await writeFile(join(place.directory, '.env'), text);
    const { code, stdout, stderr } = await place.run({ PORT: '0' });
    expect([code, stdout, linesOf(stderr)]).toEqual([
      1,
      '',
      [expect.stringContaining(`line ${line} of .env cannot be read: it must be NAME=value or a comment`)],
    ]);
    expect(stderr).not.toContain('geheim');
  });

  it('is named if it cannot be read', async () => {
    await rm(join(place.directory, '.env'));
    await mkdir(join(place.directory, '.env'));
    const { code, stderr } = await place.run({ PORT: '0' });
    expect([code, linesOf(stderr)]).toEqual([1, [expect.stringContaining('.env cannot be read: EISDIR')]]);
  });
});
