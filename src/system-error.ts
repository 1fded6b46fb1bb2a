import { getSystemErrorMap } from 'node:util';

/** What the operating system says, such as `permission denied`, without the name and arguments of the call. */
export function describeSystemError(error: unknown): string {
  const { errno = 0, message } = error as NodeJS.ErrnoException;
  return getSystemErrorMap().get(errno)?.[1] ?? message;
}
