import { createServer } from 'node:http';
import { parse } from 'graphql';
import { HOST, openSource, PORT } from './source.mjs';

/**
 * The least that could answer: node:http and one statement (or one upstream request per animal) per request. It has no
 * GraphQL engine: it reads a document once, remembers what the benchmark means by it, and supports nothing else.
 */
const source = openSource();
const plans = new Map();

function planOf(query) {
  let plan = plans.get(query);
  if (plan === undefined) {
    const { selections } = parse(query).definitions[0].selectionSet;
    const [
      {
        name,
        arguments: [limit],
      },
    ] = selections;
    plan = {
      field: name.value,
      limit: limit.value.value,
      aliases: selections.map(({ alias }) => alias?.value),
      addTypename: query.includes('__typename') ? (pet) => Object.assign(pet, { __typename: 'Pet' }) : (pet) => pet,
    };
    plans.set(query, plan);
  }
  return plan;
}

async function respond({ query, variables }, authorization) {
  const { field, limit, aliases, addTypename } = planOf(query);
  if (field === 'addPet') return { data: { addPet: addTypename(await source.add(variables.input, authorization)) } };
  if (field === 'pets') {
    const pets = await source.list(Number(limit ?? variables.limit), variables?.status, authorization);
    return { data: { pets: pets.map(addTypename) } };
  }
  const found = await source.findMany(Object.values(variables), authorization);
  return { data: Object.fromEntries(found.map((pet, index) => [aliases[index], addTypename(pet)])) };
}

function readQueryString(url) {
  const { query, variables } = Object.fromEntries(new URL(url, 'http://host').searchParams);
  return { query, variables: JSON.parse(variables) };
}

createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', async () => {
    const { method, url, headers } = request;
    const sent = method === 'GET' ? readQueryString(url) : JSON.parse(Buffer.concat(chunks).toString());
    const body = JSON.stringify(
      await (Array.isArray(sent)
        ? Promise.all(sent.map((operation) => respond(operation, headers.authorization)))
        : respond(sent, headers.authorization)),
    );
    response.writeHead(200, {
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': Buffer.byteLength(body),
    });
    response.end(body);
  });
}).listen(PORT, HOST);
