import { Pool } from 'undici';

/** The animals of the peers in proxy mode: another store over REST through undici's Pool, with the client's key. */
export function openUpstreamSource(base) {
  const { origin, pathname } = new URL(base);
  const pool = new Pool(origin, { connections: Number(process.env.UPSTREAM_CONNECTIONS ?? 64), pipelining: 1 });

  async function ask(method, path, authorization, body) {
    const headers = { accept: 'application/json' };
    if (authorization !== undefined) headers.authorization = authorization;
    if (body !== undefined) headers['content-type'] = 'application/json';
    const answer = await pool.request({ method, path: pathname + path, headers, body });
    const content = await answer.body.json();
    if (answer.statusCode === 404) return null;
    if (answer.statusCode >= 400) throw new Error(content.message);
    return content;
  }

  const toPet = ({ id, name, categoryId, status }) => ({
    id: String(id),
    name,
    categoryId: String(categoryId),
    status: status?.toUpperCase() ?? null,
  });
  const find = async (id, authorization) => {
    const found = await ask('GET', `/pets/${id}`, authorization);
    return found && toPet(found);
  };
  return {
    async list(limit, status, authorization) {
      const filter = status == null ? '' : `&status=${status.toLowerCase()}`;
      return (await ask('GET', `/pets?limit=${limit}${filter}`, authorization)).map(toPet);
    },
    findMany: (ids, authorization) => Promise.all(ids.map((id) => find(id, authorization))),
    async add({ name, categoryId, status }, authorization) {
      // The interface wants the category as a JSON number.
      const text = `{"name":${JSON.stringify(name)},"categoryId":${categoryId}${status == null ? '' : `,"status":"${status.toLowerCase()}"`}}`;
      return toPet(await ask('POST', '/pets', authorization, text));
    },
  };
}
