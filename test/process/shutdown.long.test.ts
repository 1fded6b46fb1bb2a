import { setTimeout as sleep } from 'node:timers/promises';
import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { linesOf, makePlace, until, type Place, type Program } from '../support/process.js';
import { statementWaits, whileLocked } from '../support/table-lock.js';

describe('stopping a server', () => {
  let place: Place;
  let env: Record<string, string>;

  beforeEach(async () => {
    place = await makePlace();
    env = { PORT: '0', DATABASE_URL: await place.database() };
  });
  afterEach(() => place.close());

  async function createKey(): Promise<string> {
    const { stdout } = await place.keys(['create', '--plan', 'business', '--json'], env);
    return JSON.parse(stdout).key as string;
  }

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'with %s answers requests in flight, makes /readyz return 503, and exits with status 0',
    async (name) => {
      const program = await place.start({ ...env, SHUTDOWN_GRACE_MS: '120000' });
      const inFlight = await beginRequest(program, await createKey());
      program.signal(name);
      await until('it is not ready', async () => (await readiness(program)) !== 200);
      const ready = await program.fetch('/readyz');
      expect(ready.status).toBe(503);
      expect(await ready.text()).toContain('shutting down');

      const { response, body } = await inFlight.finish();
      expect(response.statusCode).toBe(200);
      expect(response.headers.connection).toBe('close');
      expect(JSON.parse(body)).toEqual({ data: { pets: [] } });
      expect(await program.ended).toMatchObject({ code: 0, stderr: '' });
    },
  );

  it('treats two simultaneous signals, from the process group and from npm, as one', async () => {
    const program = await place.start({ ...env, SHUTDOWN_GRACE_MS: '120000' });
    const inFlight = await beginRequest(program, await createKey());
    program.signal('SIGTERM');
    await until('it is not ready', async () => (await readiness(program)) !== 200);
    program.signal('SIGTERM');
    const { response } = await inFlight.finish();
    expect(response.statusCode).toBe(200);
    expect(await program.ended).toMatchObject({ code: 0, stderr: '' });
  });

  it('ends immediately on a second signal', async () => {
    const program = await place.start({ ...env, SHUTDOWN_GRACE_MS: '600000' });
    const inFlight = await beginRequest(program, await createKey());
    program.signal('SIGTERM');
    await until('it is not ready', async () => (await readiness(program)) !== 200);
    // An earlier signal would count as the first one.
    await sleep(600);
    const { code, signal } = await program.stop('SIGTERM');
    expect(code === 0 && signal === null).toBe(false);
    await expect(inFlight.finish()).rejects.toThrow();
  });

  it('waits at most the grace time for a request', async () => {
    const program = await place.start({ ...env, SHUTDOWN_GRACE_MS: '300' });
    const inFlight = await beginRequest(program, await createKey());
    const toldAt = Date.now();
    expect((await program.stop()).code).toBe(0);
    // The server reserves a tenth to close its connections after the requests.
    expect(Date.now() - toldAt).toBeGreaterThanOrEqual(260);
    await expect(inFlight.finish()).rejects.toThrow();
  });

  it('reports that it is not ready before it stops listening, even without requests in flight', async () => {
    const program = await place.start(env);
    program.signal('SIGTERM');
    const seen: (number | 'refused')[] = [];
    await until('it does not listen', async () => seen[seen.push(await readiness(program)) - 1] === 'refused');
    expect(seen).toContain(503);
    expect((await program.ended).code).toBe(0);
  });

  it('answers clients on keep-alive connections, and announces when it closes them', async () => {
    const program = await place.start(env);
    const key = await createKey();
    const clients = Array.from({ length: 8 }, () => askOnOneConnection(program, key));
    await until('all have been answered', () => clients.every(({ answers }) => answers.length > 2));
    expect((await program.stop()).code).toBe(0);
    for (const client of clients) {
      await client.isOver;
      const [last] = client.answers.slice(-1);
      expect(client.answers.map(({ status }) => status)).not.toContain(503);
      expect(client.answers.slice(0, 3).map(({ connection }) => connection)).not.toContain('close');
      expect(last).toEqual({ status: 200, connection: 'close' });
      expect(client.failure).toBeUndefined();
    }
  });

  it('answers connections that the kernel has accepted, and requests on idle connections, while the program was busy', async () => {
    const script = encodeURIComponent(
      `process.on('SIGUSR2', () => { console.log('busy'); for (const end = Date.now() + 2000; Date.now() < end;); })`,
    );
    const program = await place.start({ ...env, NODE_OPTIONS: `--import=data:text/javascript,${script}` });
    const key = await createKey();
    const keptAlive = await Promise.all(Array.from({ length: 5 }, () => openConnection(program, key)));
    for (const connection of keptAlive) expect(await connection.ask()).toContain(' 200 ');
    program.signal('SIGTERM');
    await until('it is not ready', async () => (await readiness(program)) !== 200);
    // The notice is over when the program is no longer busy.
    program.signal('SIGUSR2');
    await until('it is busy', () => program.stdout.includes('busy'));
    const unseen = await Promise.all(Array.from({ length: 20 }, () => openConnection(program, key)));
    const answers = await Promise.all([...keptAlive, ...unseen].map((connection) => connection.ask()));
    for (const answer of answers) expect(answer).toMatch(/ 200 [^]*connection: close/i);
    expect((await program.ended).code).toBe(0);
  });

  it('answers all requests in flight within the grace time while its database is stuck', async () => {
    const program = await place.start({ ...env, SHUTDOWN_GRACE_MS: '20000' });
    const key = await createKey();
    expect((await ask(program, key)).status).toBe(200);
    const url = env.DATABASE_URL as string;
    await whileLocked(url, async () => {
      const answers = Array.from({ length: 30 }, () => ask(program, key));
      await statementWaits(url);
      const toldAt = performance.now();
      expect((await program.stop()).code).toBe(0);
      expect(performance.now() - toldAt).toBeLessThan(20_000);
      for (const answer of await Promise.all(answers)) expect([200, 503]).toContain(answer.status);
    });
  });

  it.each([
    ['idle connections', 'GET /livez HTTP/1.1\r\nHost: store\r\n\r\n'],
    ['connections that were never used', ''],
  ])('does not wait for %s', async (_, sent) => {
    const program = await place.start({ ...env, SHUTDOWN_GRACE_MS: '600000' });
    const socket = connect(Number(new URL(program.url).port), '127.0.0.1');
    await once(socket, 'connect');
    socket.on('error', () => undefined);
    if (sent !== '') {
      socket.write(sent);
      await once(socket, 'data');
    }
    expect((await program.stop()).code).toBe(0);
    socket.destroy();
  });
});

it('a server that receives a signal while it loads its modules ends with status 0, also as process 1', async () => {
  const place = await makePlace();
  try {
    // This is the last handler before the modules are loaded.
    const script = encodeURIComponent(`process.on('newListener', (name) => {
      if (name === 'unhandledRejection') setImmediate(() => process.kill(process.pid, 'SIGTERM'));
    })`);
    const program = place.launch({ PORT: '0', NODE_OPTIONS: `--import=data:text/javascript,${script}` });
    expect(await program.ended).toMatchObject({ code: 0, stderr: '' });
    expect(program.stdout).not.toContain('listening');
  } finally {
    await place.close();
  }
});

it('a server opens no inspector on SIGUSR1, and keeps serving', async () => {
  const place = await makePlace();
  try {
    const program = await place.start({ PORT: '0', DATABASE_URL: await place.database() });
    program.signal('SIGUSR1');
    await sleep(500);
    expect((await program.fetch('/livez')).status).toBe(200);
    expect(await program.stop()).toMatchObject({ code: 0, stderr: '' });
  } finally {
    await place.close();
  }
});

describe('a crashing server', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(() => place.close());

  it.each([
    ['an uncaught exception', 'throw new Error("the sky fell")'],
    ['an unhandled rejection', 'Promise.reject(new Error("the sky fell"))'],
  ])('with %s logs the reason and exits with status 1', async (_, fault) => {
    const script = encodeURIComponent(`process.on('SIGUSR2', () => { ${fault}; })`);
    const program = await place.start({
      PORT: '0',
      DATABASE_URL: await place.database(),
      NODE_ENV: 'production',
      NODE_OPTIONS: `--import=data:text/javascript,${script}`,
    });
    const { code, stdout } = await program.stop('SIGUSR2');
    expect(code).toBe(1);
    const line = JSON.parse(linesOf(stdout).at(-1) ?? '') as Record<string, unknown>;
    expect(line).toMatchObject({ level: 60, msg: 'crashed', err: { type: 'Error', message: 'the sky fell' } });
    expect(JSON.stringify(line)).toContain('at process.');
  });
});

describe('stopping an embedded store', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
    await place.prepareStore();
  });
  afterEach(() => place.close());

  it('does not wait for a client that keeps its socket open', async () => {
    const program = await place.start({ PORT: '0', SAMPLE_DATA: 'false' });
    const socket = connect(join(place.directory, '.data/.s.PGSQL.5432'));
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    expect((await program.stop()).code).toBe(0);
    socket.destroy();
  });
});

/** Opens a connection. `ask` returns what arrives first after a request, or the code of an error. */
async function openConnection(program: Program, key: string): Promise<{ ask(): Promise<string> }> {
  const socket = connect(Number(new URL(program.url).port), '127.0.0.1');
  await once(socket, 'connect');
  socket.on('error', () => undefined);
  return {
    ask: () =>
      new Promise((resolve) => {
        socket.once('data', (bytes) => resolve(bytes.toString()));
        socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code ?? 'unknown'));
        socket.once('close', () => resolve('closed'));
        socket.write(`GET /v1/pets HTTP/1.1\r\nHost: store\r\nAuthorization: Bearer ${key}\r\n\r\n`);
      }),
  };
}

interface KeptAlive {
  readonly answers: { readonly status: number | undefined; readonly connection: string | undefined }[];
  readonly isOver: Promise<void>;
  readonly failure: Error | undefined;
}

/** Sends requests over one connection until the server announces that it closes it. */
function askOnOneConnection(program: Program, key: string): KeptAlive {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const answers: KeptAlive['answers'] = [];
  let failure: Error | undefined;
  const askOnAndOn = async (): Promise<void> => {
    while (answers.at(-1)?.connection !== 'close') {
      const sent = request(`${program.url}/v1/pets`, { agent, headers: { Authorization: `Bearer ${key}` } });
      sent.on('error', () => undefined).end();
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      await text(response);
      answers.push({ status: response.statusCode, connection: response.headers.connection });
    }
  };
  const isOver = askOnAndOn()
    .catch((error: unknown) => (failure = error as Error))
    .then(() => agent.destroy());
  return {
    answers,
    isOver,
    get failure() {
      return failure;
    },
  };
}

function ask(program: Program, key: string): Promise<Response> {
  return program.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } });
}

async function readiness(program: Program): Promise<number | 'refused'> {
  return program.fetch('/readyz').then(
    ({ status }) => status,
    () => 'refused',
  );
}

/** Sends an operation with an incomplete body, and waits until the server reads it. */
async function beginRequest(
  program: Program,
  key: string,
): Promise<{ finish(): Promise<{ response: IncomingMessage; body: string }> }> {
  const body = JSON.stringify({ query: '{ pets { id } }' });
  const sent = request(`${program.url}/graphql`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      Authorization: `Bearer ${key}`,
      Expect: '100-continue',
    },
  });
  const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
  // A test that stops the server sees the failure when it finishes the request.
  answered.catch(() => undefined);
  sent.on('error', () => undefined).flushHeaders();
  await once(sent, 'continue');
  sent.write(body.slice(0, 5));
  return {
    async finish() {
      sent.end(body.slice(5));
      const [response] = await answered;
      return { response, body: await text(response) };
    },
  };
}
