import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Makes a self-signed certificate for localhost with openssl, in a folder. */
export function makeCertificate(directory: string): { readonly key: Buffer; readonly cert: Buffer } {
  const [key, cert] = ['key.pem', 'cert.pem'].map((name) => join(directory, name)) as [string, string];
  const subject = ['-subj', '/CN=localhost', '-days', '2'];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...subject, '-keyout', key, '-out', cert], {
    stdio: 'ignore',
  });
  return { key: readFileSync(key), cert: readFileSync(cert) };
}
