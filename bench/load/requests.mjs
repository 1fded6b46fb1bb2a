/**
 * The requests of a work as bytes, made before anything is measured: a head for each key, and the rest for each
 * operation.
 */
export function createRequests(operations, dialect, keys) {
  const heads = keys.map(
    (key) =>
      'POST /graphql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n' +
      (key === undefined ? '' : `Authorization: Bearer ${key}\r\n`),
  );
  const rests = operations.map((operation) => {
    const body = JSON.stringify(dialect.toRequest(operation));
    // They are sent as latin1, one byte a character.
    if (/[^ -~]/.test(body)) throw new Error('requests are plain ASCII');
    return `Content-Length: ${body.length}\r\n\r\n${body}`;
  });
  return { heads, rests };
}
