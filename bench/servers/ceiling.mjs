import { list } from '../data/animals.mjs';
import { createRawServer, response } from '../upstream/raw-http.mjs';

/**
 * Answers lists from memory without looking at more than the limit: what it serves is what the load generator can ask at
 * the most. Not a peer; it tells whether a figure is the server's or the generator's.
 */
const bodies = new Map();

function answer(_method, _path, body) {
  let known = bodies.get(body);
  if (known === undefined) {
    const { query, variables } = JSON.parse(body);
    const limit = variables?.limit ?? Number(/limit: (\d+)/.exec(query)[1]);
    const pets = list(limit, variables?.status?.toLowerCase()).map((pet) => ({
      ...pet,
      status: pet.status?.toUpperCase() ?? null,
    }));
    known = response('200 OK', '', JSON.stringify({ data: { pets } }));
    bodies.set(body, known);
  }
  return known;
}

createRawServer(answer).listen(Number(process.env.PORT), '127.0.0.1');
