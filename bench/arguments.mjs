// What command lines of this folder's programs are made of. Each throws an Error in one line for what cannot be.

/** The names of a list with commas, each once. */
export function oneOf(option, text, known) {
  const names = toList(text);
  const stranger = names.find((name) => !known.includes(name));
  if (stranger !== undefined) throw new Error(`${option} ${stranger}: there are ${known.join(', ')}`);
  return [...new Set(names)];
}

export function toList(text) {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

export function toNumber(option, text, minimum, maximum) {
  const value = Number(text);
  if (value >= minimum && value <= maximum) return value;
  throw new Error(`${option} must be a number from ${minimum} to ${maximum}, got ${text}`);
}
