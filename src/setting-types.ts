import { z } from 'zod';

export const flag = z.enum(['true', 'false'], 'must be true or false').transform((text) => text === 'true');

export function integer(minimum: number, maximum: number) {
  const expected = `must be a whole number from ${minimum} to ${maximum}`;
  return z
    .string()
    .regex(/^\d{1,15}$/, expected)
    .transform(Number)
    .refine((value) => value >= minimum && value <= maximum, expected);
}

export function url(protocols: readonly string[], expected: string, isSound: (url: URL) => boolean = () => true) {
  return z.string().refine((text) => {
    const parsed = URL.canParse(text) ? new URL(text) : undefined;
    return parsed !== undefined && protocols.includes(parsed.protocol) && isSound(parsed);
  }, expected);
}
