// openapi-typescript with openapi-fetch: identifiers are strings.
import createClient from 'openapi-fetch';
import { exactFetch } from './exact-fetch.js';
import type { paths } from './generated/schema.js';

const { STORE_URL = 'http://127.0.0.1:4000', STORE_KEY } = process.env;
const store = createClient<paths>({
  baseUrl: `${STORE_URL}/v1`,
  headers: { Authorization: `Bearer ${STORE_KEY}` },
  fetch: exactFetch,
});

const added = await store.POST('/pets', { body: { name: 'Rex', categoryId: '9007199254740993' } });
if (added.error) throw new Error(`${added.error.code}: ${added.error.message}`);
console.log('added', added.data);

const sold = await store.GET('/pets', { params: { query: { status: 'sold' } } });
console.log('sold', sold.data);
