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
  if (field === 'addPet') return { addPet: addTypename(await source.add(variables.input, authorization)) };
  if (field === 'pets') {
    const pets = await source.list(Number(limit ?? variables.limit), variables?.status, authorization);
    return { pets: pets.map(addTypename) };
  }
  const found = await source.findMany(Object.values(variables), authorization);
  return Object.fromEntries(found.map((pet, index) => [aliases[index], addTypename(pet)]));
}

createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', async () => {
    try {
      const data = await respond(JSON.parse(Buffer.concat(chunks).toString()), request.headers.authorization);
      const body = JSON.stringify({ data });
      response.writeHead(200, {
        'Content-Type': 'application/json; charset=utf-8',
        'Content-Length': Buffer.byteLength(body),
      });
      response.end(body);
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  });
}).listen(PORT, HOST);
