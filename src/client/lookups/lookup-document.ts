const documents = new Map<number, string>();

/**
 * The operation that looks `count` animals up: aliases `p0`, `p1`, … with the ids in variables `i0`, `i1`, …. Operations of one
 * size share one text, so the server compiles each once.
 */
export function toLookupDocument(count: number): string {
  const known = documents.get(count);
  if (known !== undefined) return known;
  const indices = Array.from({ length: count }, (_, index) => index);
  const variables = indices.map((index) => `$i${index}:ID!`).join();
  const fields = indices.map((index) => `p${index}:pet(id:$i${index}){...f}`).join(' ');
  const document = `query LookUp(${variables}){${fields}}fragment f on Pet{id name categoryId status}`;
  documents.set(count, document);
  return document;
}

/** The body of the request that looks animals up. */
export function toLookupBody(ids: readonly string[]): string {
  const variables = Object.fromEntries(ids.map((id, index) => [`i${index}`, id]));
  return JSON.stringify({ query: toLookupDocument(ids.length), variables });
}
