import type { AddressInfo } from 'node:net';
import { createServer, type Server } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeCertificate } from '../support/certificate.js';
import { describeWith } from '../support/installed-program.js';
import { linesOf, makePlace, type Place } from '../support/process.js';
import { startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.js';

describeWith('openssl', 'a start ends at once, with one line that names the cause,', () => {
  let place: Place;
  let server: Server;
  let plain: ScriptedUpstream;

  beforeAll(async () => {
    place = await makePlace();
    plain = await startScriptedUpstream();
    server = createServer(makeCertificate(place.directory), (socket) => socket.on('error', () => undefined));
    server.on('tlsClientError', () => undefined);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(async () => {
    await new Promise((closed) => server.close(closed));
    await plain.close();
    await place.close();
  });

  it.each([
    ['the certificate of UPSTREAM_URL is self-signed', 'UPSTREAM_URL', 'https', /self-signed certificate/],
    ['the certificate of REDIS_URL is self-signed', 'REDIS_URL', 'rediss', /self-signed certificate/],
    ['the certificate of a Sentinel is self-signed', 'REDIS_URL', 'rediss+sentinel', /self-signed certificate/],
    ['the certificate of a cluster is self-signed', 'REDIS_URL', 'rediss+cluster', /self-signed certificate/],
    ['UPSTREAM_URL has https, but no TLS', 'UPSTREAM_URL', 'https', /wrong version number|packet length/],
    ['REDIS_URL has rediss, but no TLS', 'REDIS_URL', 'rediss', /wrong version number|packet length/],
    ['a Sentinel has no TLS', 'REDIS_URL', 'rediss+sentinel', /wrong version number|packet length/],
    ['a cluster has no TLS', 'REDIS_URL', 'rediss+cluster', /wrong version number|packet length/],
  ])('if %s', async (what, name, scheme, cause) => {
    const port = what.endsWith('self-signed') ? (server.address() as AddressInfo).port : new URL(plain.url).port;
    const env = {
      PORT: '0',
      START_TIMEOUT_MS: '60000',
      [name]: `${scheme}://127.0.0.1:${port}${scheme.endsWith('sentinel') ? '/animals' : ''}`,
    };
    const startedAt = performance.now();
    const { code, stderr } = await place.run(env);
    expect(performance.now() - startedAt).toBeLessThan(30_000);
    expect([code, linesOf(stderr)]).toEqual([1, [expect.stringMatching(cause)]]);
    expect(stderr).toContain(`${name} names a`);
  });
});
