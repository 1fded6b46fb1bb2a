import { getSystemErrorMap } from 'node:util';

/** What the operating system says, such as `permission denied`, without the name and arguments of the call. */
export function describeSystemError(error: unknown): string {
  const { errno, message } = error as NodeJS.ErrnoException;
  const [, text] = (errno !== undefined && getSystemErrorMap().get(errno)) || [];
  return text ?? message;
}
