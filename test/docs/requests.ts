import { splitHeader, type HttpResponse } from './matching.js';

/** An answer with the text of its body. */
export interface Answer extends HttpResponse {
  readonly body: string;
}

/** Sends an operation as a POST; the variables are JSON text, so that their numbers stay as they are. */
export function sendOperation(url: string, key: string, query: string, variables?: string): Promise<Answer> {
  const rest = variables === undefined ? '' : `,"variables":${variables}`;
  return send(`${url}/graphql`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
    body: `{"query":${JSON.stringify(query)}${rest}}`,
  });
}

/** Sends a request as a document prints it: a line with method and path, headers, an empty line, the body. */
export function sendRequest(url: string, key: string, text: string): Promise<Answer> {
  const [head = '', ...body] = text.replaceAll('$KEY', key).split('\n\n');
  const [requestLine = '', ...lines] = head.trim().split('\n');
  const [method = '', path = ''] = requestLine.split(' ');
  const content = body.join('\n\n').trim();
  return send(url + path, {
    method,
    headers: lines.map(splitHeader),
    ...(content !== '' && { body: content }),
  });
}

async function send(url: string, init: RequestInit): Promise<Answer> {
  const response = await fetch(url, init);
  return {
    status: `${response.status} ${response.statusText}`,
    header: (name) => response.headers.get(name),
    body: await response.text(),
  };
}
