import { readdir } from 'node:fs/promises';
import { buildSchema } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';
import { request } from '../support/raw-request.js';
import packageJson from '../../package.json' with { type: 'json' };

/** The Accept header that Chromium sends when it opens a page. */
const BROWSER = {
  Accept:
    'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-context;v=b3;q=0.7',
};
/** A URL of a file in a page. */
const PART = /"\.\/(assets\/[\w.-]+-[\w-]{8}\.(js|css))"/;
const KEY = /pets_[0-9A-Za-z]{38}/;

describe.each(MODES)('browser pages, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode, { NODE_ENV: 'development' });
    await gateway.createKey();
  });
  afterAll(() => gateway.close());

  it('show Apollo Sandbox with a header for the key at /graphql', async () => {
    const response = await gateway.fetch('/graphql', { headers: BROWSER });
    const page = await response.text();
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page).toContain('https://embeddable-sandbox.cdn.apollographql.com/');
    expect(page).toContain('new window.EmbeddedSandbox(');
    expect(page).toContain('"headers":{"Authorization":"Bearer "}');
    expect(page).not.toMatch(KEY);
    expect(response.headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60');
    const refused = await gateway.fetch('/graphql', { method: 'DELETE', headers: BROWSER });
    expect([refused.status, refused.headers.get('x-ratelimit-limit')]).toEqual([405, '60']);
  });

  it('are sent only to browsers; a client that accepts anything gets JSON', async () => {
    for (const Accept of ['*/*', 'application/json', 'application/json, text/html;q=0.5']) {
      const response = await gateway.fetch('/graphql?query={__typename}', {
        headers: { Accept, 'Apollo-Require-Preflight': 'true' },
      });
      expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
      expect(await response.json()).toEqual({ data: { __typename: 'Query' } });
    }
  });

  it('are not shown instead of the answer to a query with a key', async () => {
    const Authorization = 'Bearer unknown';
    const response = await gateway.fetch('/graphql?query={__typename}', { headers: { ...BROWSER, Authorization } });
    expect(await response.text()).not.toContain('EmbeddedSandbox');
  });

  it('show GraphiQL at /explorer, which loads files only from this server', async () => {
    const response = await gateway.fetch('/explorer', { headers: BROWSER });
    const page = await response.text();
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('private, no-cache');
    expect(page).toContain('GraphiQL');
    expect(page).not.toMatch(KEY);
    const sources = [...page.matchAll(/\b(?:src|href)="([^"]*)"/g)].map(([, source]) => source as string);
    const others = sources.filter((source) => !PART.test(`"${source}"`));
    expect(sources.length - others.length).toBeGreaterThanOrEqual(2);
    expect(others).toEqual(['data:,']);
    expect(page).not.toMatch(/https?:|<style|<script(?![^>]*\bsrc=)/);
  });

  it('allow browsers to cache the files of the pages permanently', async () => {
    const page = await (await gateway.fetch('/explorer')).text();
    for (const [, source = '', kind] of page.matchAll(new RegExp(PART, 'g'))) {
      const { status, headers } = await gateway.fetch(`/${source}`);
      expect(status).toBe(200);
      expect(headers.get('content-type')).toBe(`text/${kind === 'js' ? 'javascript' : 'css'}; charset=utf-8`);
      expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    }
  });

  it.each([
    '/explorer/index.htm',
    '/assets/index.html',
    '/assets/nothing.js',
    '/assets/../package.json',
    '/assets/%2e%2e/index.html',
    '/docs/..',
    '/docs/../package.json',
    '/docs/%2e%2e%2findex',
    '/docs/a/b',
  ])('return 404 for %s', async (path) => {
    const { status, body } = await request(gateway.url, { path });
    expect(status).toBe(404);
    expect(JSON.parse(body)).toMatchObject({ code: 'not_found', status: 404 });
  });

  it('send browsers a front page, and other clients the same as JSON', async () => {
    const json = await gateway.fetch('/', { headers: { Accept: '*/*' } });
    expect(json.headers.get('content-type')).toBe('application/json; charset=utf-8');
    const { kind, version, newKeyCommand, links } = (await json.json()) as any;
    expect({ kind, version }).toEqual({ kind: mode === 'proxy' ? 'gateway' : 'store', version: packageJson.version });
    if (mode === 'proxy') expect(newKeyCommand).toBeUndefined();
    else expect(newKeyCommand).toMatch(/ create --plan free$/);
    const page = await (await gateway.fetch('/', { headers: BROWSER })).text();
    const hint = mode === 'proxy' ? 'from the store behind this gateway' : `<code>${newKeyCommand as string}</code>`;
    expect(page).toContain(hint);
    expect(page).not.toContain('{{');
    for (const { href, title } of links) {
      expect(page).toContain(`>${title as string}</a>`);
      expect(page).toContain(`<a href="${(href as string).slice(1)}">`);
      expect((await gateway.fetch(href as string, { headers: BROWSER })).status, href as string).toBe(200);
    }
    expect((links as { href: string }[]).some(({ href }) => href === '/key')).toBe(mode !== 'proxy');
    const rest = (links as { href: string }[]).filter(({ href }) => ['/reference', '/v1/openapi.json'].includes(href));
    expect(rest).toHaveLength(mode === 'proxy' ? 0 : 2);
  });

  it('have one address each, which those with a slash at the end lead to', async () => {
    const paths = ['/explorer', '/docs/README', ...(mode === 'proxy' ? [] : ['/key', '/reference'])];
    for (const path of paths) {
      const response = await gateway.fetch(`${path}/?query=x`, { headers: BROWSER, redirect: 'manual' });
      const { href } = new URL(response.headers.get('location') ?? '', `https://store.example.com/prefix${path}/`);
      expect([response.status, href]).toEqual([308, `https://store.example.com/prefix${path}?query=x`]);
    }
  });

  it('show the documents, which link to each other', async () => {
    const read = async (path: string): Promise<string> => (await gateway.fetch(path, { headers: BROWSER })).text();
    let links = 0;
    const names = (await readdir(new URL('../../docs/', import.meta.url))).filter((name) => name.endsWith('.md'));
    for (const path of ['README', ...names.map((name) => name.replace(/\.md$/, ''))].map((name) => `/docs/${name}`)) {
      const page = await read(path);
      expect(page, path).not.toMatch(/\{\{|<script(?![^>]*\bsrc=)/);
      for (const [, href = ''] of page.matchAll(/\bhref="([^":]+)"/g)) {
        const { pathname, hash } = new URL(href, gateway.url + path);
        links += 1;
        const target = await gateway.fetch(pathname, { headers: BROWSER });
        expect(target.status, `${path} → ${href}`).toBe(200);
        if (hash !== '') expect(await target.text(), `${path} → ${href}`).toContain(`id="${hash.slice(1)}"`);
      }
    }
    expect(links).toBeGreaterThan(names.length);
    expect((await gateway.fetch('/docs/nothing')).status).toBe(404);
  });

  it('name the port of this server in examples', async () => {
    const { port } = new URL(gateway.url);
    for (const path of ['/docs/getting-started', ...(mode === 'proxy' ? [] : ['/collection.json'])]) {
      const text = await (await gateway.fetch(path)).text();
      expect(text, path).toContain(`http://127.0.0.1:${port}`);
      expect(text, path).not.toContain(':4000');
    }
  });

  it('tell language models in /llms.txt where everything is', async () => {
    const text = await (await gateway.fetch('/llms.txt')).text();
    const links = [...text.matchAll(/\]\((\/[^)]*)\)/g)].map(([, path]) => path as string);
    expect(links.includes('/mcp')).toBe(true);
    expect(links.includes('/v1/openapi.json')).toBe(mode !== 'proxy');
    for (const path of links) expect((await gateway.fetch(path)).status, path).not.toBe(404);
  });

  it('include the schema in SDL, unless introspection is off', async () => {
    const response = await gateway.fetch('/schema.graphql');
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    const schema = buildSchema(await response.text());
    expect(schema.getQueryType()?.getFields().pet?.deprecationReason).toContain('5 December 2030');
  });

  it('restrict /explorer to its own script and to requests to this server', async () => {
    const response = await gateway.fetch('/explorer');
    expect(toPolicy(response.headers.get('content-security-policy') ?? '')).toEqual({
      'default-src': "'none'",
      'script-src': "'self'",
      'style-src': "'self'",
      'img-src': 'data:',
      'connect-src': "'self'",
      'base-uri': "'none'",
      'form-action': "'none'",
      'frame-ancestors': "'none'",
    });
  });

  it('send the headers that docs/security.md promises', async () => {
    const paths = ['/', '/explorer', '/graphql', '/docs/README', '/docs/security'];
    if (mode !== 'proxy') paths.push('/reference', '/key');
    for (const path of paths) {
      const { headers } = await gateway.fetch(path, { headers: BROWSER });
      expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
      expect([path, headers.get('x-content-type-options'), headers.get('x-frame-options')]).toEqual([
        path,
        'nosniff',
        'DENY',
      ]);
      expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
      expect(headers.get('cross-origin-opener-policy')).toMatch(/^same-origin/);
      expect(headers.get('permissions-policy')).toContain('camera=()');
      expect(headers.get('referrer-policy')).toMatch(/^(?:no-referrer|strict-origin-when-cross-origin)$/);
    }
  });

  it('can load the schema while the key is empty', async () => {
    const { status, data } = await gateway.graphql('{ __schema { queryType { name } } }', {
      headers: { Authorization: 'Bearer ' },
    });
    expect(status).toBe(200);
    expect(data.__schema.queryType.name).toBe('Query');
  });

  it('show the health of the server', async () => {
    expect(await openPage(gateway, '/readyz', 200)).toContain('<p>The backend is available.</p>');
    const json = await gateway.fetch('/readyz?backend=true', { headers: { Accept: '*/*' } });
    expect(await json.json()).toEqual({ status: 'ready', backend: 'available' });
  });

  it('refuse POST with 405', async () => {
    const response = await gateway.fetch('/explorer', { method: 'POST', body: '' });
    expect(response.status).toBe(405);
    expect(response.headers.get('allow')).toBe('GET, HEAD');
    expect(await response.json()).toMatchObject({ code: 'method_not_allowed', status: 405 });
  });
});

describe.each(MODES)('browser pages that are turned off, %s store', (mode) => {
  const settings: [string, Record<string, string>, number][] = [
    ['in production', { NODE_ENV: 'production' }, 401],
    ['with EXPLORER=false', { NODE_ENV: 'development', EXPLORER: 'false' }, 400],
  ];

  it('leave the page of a key to KEY_PAGE, in a store', async () => {
    for (const [env, expected] of [
      [{ NODE_ENV: 'production' }, 404],
      [{ NODE_ENV: 'production', EXPLORER: 'true' }, 404],
      [{ NODE_ENV: 'development', KEY_PAGE: 'false' }, 404],
      [{ NODE_ENV: 'production', KEY_PAGE: 'true' }, 200],
      [{ NODE_ENV: 'development', EXPLORER: 'false' }, 200],
    ] as const) {
      const gateway = await startGateway(mode, env);
      try {
        const response = await gateway.fetch('/key', { headers: BROWSER });
        const status = mode === 'proxy' ? 404 : expected;
        expect([env, response.status]).toEqual([env, status]);
        const page = await response.text();
        if (status === 404) continue;
        expect(page).not.toMatch(KEY);
        for (const [, part] of page.matchAll(new RegExp(PART, 'g')))
          expect((await gateway.fetch(`/${part as string}`)).status).toBe(200);
        expect((await gateway.fetch('/reference', { headers: BROWSER })).status).toBe(404);
      } finally {
        await gateway.close();
      }
    }
  });

  it.each(settings)('are not served %s', async (_, env, expected) => {
    const gateway = await startGateway(mode, env);
    try {
      const { key } = await gateway.createKey();
      for (const path of ['/', '/explorer', '/reference', '/schema.graphql', '/llms.txt', '/nothing']) {
        const response = await gateway.fetch(path);
        expect(response.status).toBe(404);
        expect(response.headers.get('vary')).toBe('Accept');
        expect(await response.json()).toMatchObject({ code: 'not_found', status: 404 });
        const page = await openPage(gateway, path, 404);
        expect(page).toContain('<h1>404 Not Found</h1>');
        expect(page).toContain(`There is no such path. The interfaces are at /graphql`);
        expect(page).not.toContain('href');
      }

      const path = '/graphql?query={a(b:"<script>")}';
      const status = expected === 401 ? 401 : 400;
      expect(await openPage(gateway, path, status)).not.toMatch(/<script>|href/);
      const keyed = await openPage(gateway, '/graphql', 422, { Authorization: `Bearer ${key}` });
      expect(keyed).not.toMatch(KEY);
      const json = await gateway.fetch('/graphql', { headers: { Accept: 'application/json' } });
      expect([json.status, await json.json()]).toMatchObject([expected, { errors: [{}] }]);
    } finally {
      await gateway.close();
    }
  });

  it('are served in production with EXPLORER=true', async () => {
    const gateway = await startGateway(mode, { NODE_ENV: 'production', EXPLORER: 'true' });
    try {
      for (const path of ['/', '/graphql', '/explorer']) {
        const response = await gateway.fetch(path, { headers: BROWSER });
        expect(response.status).toBe(200);
        expect(response.headers.get('content-type')).toContain('text/html');
      }
    } finally {
      await gateway.close();
    }
  });
});

/** Opens a path as a browser does. Returns a page that contains nothing but text. */
async function openPage(gateway: Gateway, path: string, status: number, further = {}): Promise<string> {
  const response = await gateway.fetch(path, { headers: { ...BROWSER, ...further } });
  expect([path, response.status, response.headers.get('content-type')]).toEqual([
    path,
    status,
    'text/html; charset=utf-8',
  ]);
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
  expect(response.headers.get('vary')).toContain('Accept');
  return response.text();
}

function toPolicy(header: string): Record<string, string> {
  return Object.fromEntries(
    header.split(';').map((directive) => {
      const [name = '', ...sources] = directive.trim().split(' ');
      return [name, sources.join(' ')];
    }),
  );
}
