export function median(values) {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  if (sorted.length === 0) return Number.NaN;
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** `{ median, low, high }` of one figure over the rounds. */
export function spread(rounds, figure) {
  const values = rounds.map(figure);
  return { median: median(values), low: Math.min(...values), high: Math.max(...values) };
}

/** One figure of a server over that of another, round by round: what the machine did meanwhile fell on both. */
export function ratio(rounds, others, figure) {
  const pairs = rounds.flatMap((one) => {
    const other = others.find(({ round }) => round === one.round);
    return other ? [figure(one) / figure(other)] : [];
  });
  return { median: median(pairs), low: Math.min(...pairs), high: Math.max(...pairs) };
}
