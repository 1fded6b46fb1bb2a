/**
 * Swagger UI formats a response with JSON.parse and JSON.stringify, which round integers beyond 2^53. This page replaces
 * JSON.parse by one that keeps their digits, in browsers that provide the source text of a number.
 */
interface ExactJson {
  readonly rawJSON?: (text: string) => unknown;
}

const parse = JSON.parse.bind(JSON);
const { rawJSON } = JSON as ExactJson;

if (rawJSON) {
  JSON.parse = (text: string, reviver?: Parameters<typeof JSON.parse>[1]): unknown =>
    parse(
      text,
      reviver ??
        ((_key: string, value: unknown, context?: { source?: string }) =>
          Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source !== undefined
            ? rawJSON(context.source)
            : value),
    );
}
