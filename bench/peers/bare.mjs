import { createServer } from 'node:http';
import { fromQueryString } from '../documents.mjs';
import { HOST, openSource, PORT } from './source.mjs';

/**
 * The least that could answer: node:http and one statement (or one upstream request per animal) per operation. It has
 * no GraphQL engine: it knows the documents of the benchmark by their text, and nothing else.
 */
const source = openSource();
const aliases = Array.from({ length: 50 }, (_, index) => `p${index}`);

async function respond({ query, variables }, { authorization }) {
  const toPet = query.includes('__typename') ? (pet) => ({ ...pet, __typename: 'Pet' }) : (pet) => pet;
  if (query.includes('addPet(')) return { data: { addPet: toPet(await source.add(variables.input, authorization)) } };
  if (query.includes('pets(')) {
    const pets = await source.list(variables?.limit ?? 20, variables?.status, authorization);
    return { data: { pets: pets.map(toPet) } };
  }
  const found = await source.findMany(Object.values(variables), authorization);
  return { data: Object.fromEntries(found.map((pet, index) => [aliases[index], toPet(pet)])) };
}

createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', async () => {
    const { method, url, headers } = request;
    const sent = method === 'GET' ? fromQueryString(url) : JSON.parse(Buffer.concat(chunks).toString());
    const answer = Array.isArray(sent) ? Promise.all(sent.map((one) => respond(one, headers))) : respond(sent, headers);
    const body = JSON.stringify(await answer);
    response
      .setHeader('Content-Type', 'application/json; charset=utf-8')
      .setHeader('Content-Length', Buffer.byteLength(body));
    response.end(body);
  });
}).listen(PORT, HOST);
