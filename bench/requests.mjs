import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ANIMAL_COUNT } from './animals.mjs';
import { DOCUMENTS, fromQueryString, respond, toVariables } from './documents.mjs';

const record = (name) => JSON.parse(readFileSync(new URL(`recordings/${name}.json`, import.meta.url), 'utf8')).requests;
const RECORDINGS = {
  apollo: record('apollo-client'),
  urql: record('urql'),
  relay: record('relay-runtime'),
  'graphql-request': record('graphql-request'),
};

/** Pseudo-random numbers, the same in every run and for every server. */
function createRandom(seed) {
  let state = seed;
  // https://en.wikipedia.org/wiki/Linear_congruential_generator, the constants of Numerical Recipes
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const STATUSES = [undefined, 'AVAILABLE', 'PENDING', 'SOLD'];
const repeat = (count, make, random = createRandom(count)) => Array.from({ length: count }, () => make(random));

function lookup(count, random) {
  const ids = new Set();
  while (ids.size < count) ids.add(String(1 + random(ANIMAL_COUNT)));
  return { document: `lookup${count}`, variables: toVariables([...ids]) };
}

/** An operation of W5: 70 % lists, 25 % lookups of one or five animals, 5 % additions. */
function mixed(random) {
  const point = random(100);
  const status = STATUSES[random(4)];
  if (point < 70) return { document: 'pets', variables: { limit: 1 + random(100), status } };
  if (point < 85) return lookup(1, random);
  if (point < 95) return lookup(5, random);
  return { document: 'add', variables: { input: { name: 'Newcomer', categoryId: String(1 + random(25)), status } } };
}

const first20 = { document: 'pets', variables: { limit: 20 } };
const PLAIN_LIST = '{ pets(limit: 20) { id name categoryId status } }';

/**
 * The requests of each work, as operations: a document and its variables. A request with several operations is a batch.
 * `rows` says in which forms the table has it, over 32 connections unless it says otherwise.
 */
export const WORKS = {
  W1: {
    title: 'list of 20',
    requests: [[first20]],
    rows: ['plain', 'apollo', 'apollo ×1', 'apollo ×250', 'no-extensions', 'include', 'trusted'],
  },
  W3: {
    title: '50 lookups in one operation, ids varied',
    requests: repeat(1_000, (random) => [lookup(50, random)]),
    rows: ['plain', 'apollo', 'apollo ×1', 'no-extensions', 'trusted'],
  },
  W5: {
    title: 'mix: 70 % lists with limit and status varied, 25 % lookups of one or five animals, 5 % additions',
    requests: repeat(2_000, (random) => [mixed(random)]),
    rows: ['plain', 'apollo', 'apollo ×1'],
  },
  batch: {
    title: 'a list of 20 and four lookups, through BatchHttpLink',
    isOptional: true,
    requests: repeat(1_000, (random) => [first20, ...Array.from({ length: 4 }, () => lookup(1, random))]),
    rows: ['apollo'],
  },
};

/** Only this program is measured in these forms, against itself. */
const OWN_FORMS = ['no-extensions', 'include', 'trusted'];
/** How a request is sent. */
export const FORMS = ['plain', ...Object.keys(RECORDINGS), ...OWN_FORMS];
export const isOwnForm = (form) => OWN_FORMS.includes(form);

const hash = (text) => `sha256:${createHash('sha256').update(text).digest('hex')}`;
/** The manifest of the documents that Apollo Client sends, for the form `trusted`. */
export const TRUSTED = Object.fromEntries(
  Object.values(RECORDINGS.apollo).flatMap(({ body }) => (body?.query ? [[hash(body.query), body.query]] : [])),
);

/** A request the way people type it into curl: no operation name, no `__typename`, few headers. */
function toPlain([operation]) {
  const { document, variables } = operation;
  const body = operation === first20 ? { query: PLAIN_LIST } : { query: DOCUMENTS[document], variables };
  const headers = { 'content-type': 'application/json', authorization: 'Bearer KEY' };
  return { method: 'POST', path: '/graphql', headers, body };
}

/** The variables in place of the recorded ones; those that the client sends as null stay. */
function fill(recorded, variables) {
  const nulls = Object.entries(recorded).filter(([, value]) => value === null);
  return { ...Object.fromEntries(nulls), ...variables };
}

function fillPath(path, variables) {
  const url = new URL(path, 'http://host');
  const filled = fill(JSON.parse(url.searchParams.get('variables')), variables);
  url.searchParams.set('variables', JSON.stringify(filled));
  return url.pathname + url.search;
}

function toRequest(operations, form) {
  if (form === 'plain') return toPlain(operations);
  const [{ document, variables }] = operations;
  const recorded = RECORDINGS[form] ?? RECORDINGS.apollo;
  if (operations.length > 1) {
    const { batch } = recorded;
    const body = batch.body.map((entry, index) => ({ ...entry, variables: operations[index].variables }));
    return { ...batch, body };
  }
  const isInclude = form === 'include' && document === 'pets';
  const request = recorded[isInclude ? 'petsInclude' : document];
  const values = isInclude ? { ...variables, withStatus: true } : variables;
  if (request.body === undefined) return { ...request, path: fillPath(request.path, values) };
  const body = { ...request.body, variables: fill(request.body.variables, values) };
  if (form === 'trusted') {
    const { operationName, variables, query } = body;
    return { ...request, body: { operationName, variables, documentId: hash(query) } };
  }
  if (form === 'no-extensions') delete body.extensions;
  return { ...request, body };
}

/** What to send for a work, as `{ method, path, headers, body }`, with a key. */
export function toRequests(work, form, key) {
  return WORKS[work].requests.map((operations) => {
    const { headers, body, ...request } = toRequest(operations, form);
    return {
      ...request,
      headers: { host: '127.0.0.1', ...headers, authorization: `Bearer ${key}` },
      body: body === undefined ? '' : JSON.stringify(body),
    };
  });
}

/** An agent's call of a tool, as the SDK's client of that edition sends it. */
export function toToolCall(edition, key) {
  return toMessage(edition, 'tools/call', { name: 'list_pets', arguments: { limit: 20 } }, key);
}

/** A message of an agent, with what its edition adds. */
export function toMessage(edition, method, params, key) {
  const isNew = edition === '2026-07-28';
  const meta = {
    'io.modelcontextprotocol/protocolVersion': edition,
    'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    authorization: `Bearer ${key}`,
    'mcp-protocol-version': edition,
    ...(isNew && { 'mcp-method': method, ...(params.name && { 'mcp-name': params.name }) }),
  };
  const body = { jsonrpc: '2.0', id: 1, method, params: { ...params, ...(isNew && { _meta: meta }) } };
  return { method: 'POST', path: '/mcp', headers, body: JSON.stringify(body) };
}

/**
 * A request in the bytes of HTTP/1.1, which refuses requests without a host. A body may be in chunks already, or shorter
 * than the length that the request states.
 */
export function toBytes({ method, path, headers, body, length: stated = Buffer.byteLength(body) }) {
  const length = body === '' || headers['transfer-encoding'] ? {} : { 'content-length': stated };
  const lines = Object.entries({ host: '127.0.0.1', ...headers, ...length }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`;
}

/** @throws Error unless the response is the correct one: the same `data` in the same order, but for the id of an addition */
export function checkResponse({ path, body }, { status, text }) {
  const asList = (value) => (Array.isArray(value) ? value : [value]);
  const responses = status === 200 ? asList(JSON.parse(text)) : [];
  for (const [index, operation] of asList(body === '' ? fromQueryString(path) : JSON.parse(body)).entries()) {
    const { data, errors } = responses[index] ?? {};
    const expected = respond({ query: TRUSTED[operation.documentId], ...operation }).data;
    if (data?.addPet && expected.addPet && Number(data.addPet.id) > ANIMAL_COUNT) data.addPet.id = expected.addPet.id;
    if (errors === undefined && JSON.stringify(data) === JSON.stringify(expected)) continue;
    const short = (value) => value.slice(0, 300);
    throw new Error(`HTTP status ${status}, ${short(text)} instead of ${short(JSON.stringify(expected))}`);
  }
}
