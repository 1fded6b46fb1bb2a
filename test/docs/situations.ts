import { startFaultProxy } from '../support/fault-proxy.js';
import { breakReads, createDatabase, startGateway, startProxyBefore } from '../support/gateway.js';
import { startScriptedUpstream } from '../support/scripted-upstream.js';

/** A server in the state that a `given:` comment names, and a key. */
export interface Situation {
  readonly url: string;
  readonly key: string;
  close(): Promise<void>;
}

const QUERY = '{ pets(limit: 1) { id } }';

/** The situations that documents assume but none of their commands creates. */
export const SITUATIONS: Readonly<Record<string, () => Promise<Situation>>> = {
  'the database has just become unavailable': () => withoutDatabase(true),
  'the database is unavailable': () => withoutDatabase(false),

  async 'the key is read-only'() {
    const gateway = await startGateway('server');
    const { key } = await gateway.createKey({ readOnly: true });
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10)`);
    return { url: gateway.url, key, close: () => gateway.close() };
  },

  async 'the key has used up its minute'() {
    const gateway = await startGateway('server');
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 1_000 } });
    await gateway.graphql(QUERY, { key });
    return { url: gateway.url, key, close: () => gateway.close() };
  },

  async 'the key is banned'() {
    const gateway = await startGateway('server', { BAN_AFTER: '0' });
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 1_000 } });
    await gateway.graphql(QUERY, { key });
    await gateway.graphql(QUERY, { key });
    return { url: gateway.url, key, close: () => gateway.close() };
  },

  async 'something is broken in the store'() {
    const gateway = await startGateway('server');
    const { key } = await gateway.createKey();
    await breakReads(gateway);
    return { url: gateway.url, key, close: () => gateway.close() };
  },

  async 'nobody listens at the upstream'() {
    const upstream = await startScriptedUpstream();
    const situation = await behindGateway(upstream.url, () => Promise.resolve());
    await upstream.close();
    return situation;
  },

  async 'the upstream says nothing'() {
    const upstream = await startScriptedUpstream(() => undefined);
    return behindGateway(upstream.url, () => upstream.close());
  },

  async 'the upstream answers a page of HTML'() {
    const upstream = await startScriptedUpstream((_, response) => {
      response.writeHead(500, { 'Content-Type': 'text/html' }).end('<h1>Oops</h1>');
    });
    return behindGateway(upstream.url, () => upstream.close());
  },
};

async function withoutDatabase(isKeyKnown: boolean): Promise<Situation> {
  const { url, drop } = await createDatabase();
  const here = new URL(url);
  const proxy = await startFaultProxy({ host: here.hostname, port: Number(here.port) });
  here.port = String(proxy.port);
  const gateway = await startGateway('server', { DATABASE_URL: here.href });
  const { key } = await gateway.createKey();
  if (isKeyKnown) await gateway.graphql(QUERY, { key });
  await proxy.set('refuse');
  return {
    url: gateway.url,
    key,
    async close() {
      await gateway.close();
      await proxy.close();
      await drop();
    },
  };
}

async function behindGateway(upstreamUrl: string, closeUpstream: () => Promise<void>): Promise<Situation> {
  const gateway = await startProxyBefore(upstreamUrl, { UPSTREAM_TIMEOUT_MS: '500' });
  return {
    url: gateway.url,
    key: 'pets_upstream',
    async close() {
      await gateway.close();
      await closeUpstream();
    },
  };
}
