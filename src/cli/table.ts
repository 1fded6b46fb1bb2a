/** Columns whose values may have any length. */
const FREE_TEXT: readonly string[] = ['label', 'client', 'operation', 'who', 'what'];
const LEAST_WIDTH = 4;

/**
 * Formats rows as a table. If it is wider than the terminal, columns of free text are cut, the widest first. If that is
 * not enough, each row is a block of lines instead.
 */
export function formatTable(
  headings: readonly string[],
  rows: readonly (readonly (string | number)[])[],
  width = terminalWidth(),
): string {
  const lines = [headings, ...rows.map((row) => row.map(String))];
  const widths = headings.map((_, i) => Math.max(...lines.map((line) => widthOf(line[i] as string))));
  const freeWidths = (): number[] => widths.map((own, i) => (FREE_TEXT.includes(headings[i] as string) ? own : 0));
  for (let excess = sum(widths) + 2 * (widths.length - 1) - width; excess > 0; excess--) {
    const widest = Math.max(...freeWidths());
    if (widest <= LEAST_WIDTH) return formatBlocks(headings, lines.slice(1), width);
    widths[freeWidths().indexOf(widest)] = widest - 1;
  }
  const isNumeric = headings.map((_, i) => rows.length > 0 && rows.every((row) => typeof row[i] === 'number'));
  return lines
    .map((line) =>
      line
        .map((cell, i) => fit(cell, widths[i] as number, isNumeric[i] as boolean))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Formats each row as lines of a heading and a value. Empty values are left out. */
function formatBlocks(headings: readonly string[], rows: readonly (readonly string[])[], width: number): string {
  const indent = Math.max(...headings.map(widthOf)) + 2;
  const room = Math.max(LEAST_WIDTH, width - indent);
  const toLine = (value: string, i: number): string =>
    `${(headings[i] as string).padEnd(indent)}${fit(value, room, false).trimEnd()}`;
  return rows.map((row) => row.flatMap((value, i) => (value === '' ? [] : [toLine(value, i)])).join('\n')).join('\n\n');
}

/** Output that is not read on a terminal is not cut. */
function terminalWidth(): number {
  return process.stdout.isTTY ? process.stdout.columns : Number(process.env.COLUMNS) || Infinity;
}

function fit(text: string, width: number, isNumeric: boolean): string {
  let cut = '';
  for (const character of charactersOf(text)) {
    if (widthOf(text) > width && widthOf(cut + character) > width - 1) {
      cut += '…';
      break;
    }
    cut += character;
  }
  const space = ' '.repeat(Math.max(0, width - widthOf(cut)));
  return isNumeric ? space + cut : cut + space;
}

/** Characters that take two columns of a terminal. */
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;

function widthOf(text: string): number {
  return sum(charactersOf(text).map((character) => (WIDE.test(character) ? 2 : 1)));
}

function charactersOf(text: string): string[] {
  return Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Formats a time in UTC, to the minute. */
export function formatTime(time: Date | null, otherwise = ''): string {
  return time?.toISOString().slice(0, 16).replace('T', ' ') ?? otherwise;
}
