interface ExactJson {
  readonly rawJSON?: (text: string) => unknown;
}

/**
 * Swagger UI formats a response with JSON.parse and JSON.stringify, which round integers beyond 2^53. This function
 * replaces JSON.parse by one that keeps their digits, in browsers that provide the source text of a number.
 */
export function keepDigits(): void {
  const parse = JSON.parse.bind(JSON);
  const { rawJSON } = JSON as ExactJson;
  if (!rawJSON) return;
  const exact = (_key: string, value: unknown, context?: { source?: string }): unknown =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source !== undefined
      ? rawJSON(context.source)
      : value;
  JSON.parse = (text: string, reviver?: Parameters<typeof JSON.parse>[1]): unknown => parse(text, reviver ?? exact);
}
