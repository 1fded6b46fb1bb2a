// @hey-api/openapi-ts: identifiers are bigints.
import { exactFetch } from './exact-fetch.js';
import { createPet, listPets } from './generated/hey-api/index.js';
import { client } from './generated/hey-api/client.gen.js';

const { STORE_URL = 'http://127.0.0.1:4000', STORE_KEY } = process.env;
client.setConfig({ baseUrl: `${STORE_URL}/v1`, auth: STORE_KEY, fetch: exactFetch });

const added = await createPet({ body: { name: 'Rex', categoryId: 9007199254740993n } });
if (added.error) throw new Error(`${added.error.code}: ${added.error.message}`);
console.log('added', added.data);

const sold = await listPets({ query: { status: 'sold' } });
console.log('sold', sold.data);
