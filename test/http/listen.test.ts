import { createServer } from 'node:http';
import { expect, it } from 'vitest';
import { listen } from '../../src/http/lifecycle.js';

it.each(['127.0.0.1', '0.0.0.0'])('the address of a server with HOST %s can be opened in a browser', async (host) => {
  const server = createServer((_, response) => response.end());
  const url = await listen(server, host, 0);
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect((await fetch(url)).status).toBe(200);
  await new Promise((closed) => server.close(closed));
});
