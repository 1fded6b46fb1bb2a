import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeWith } from '../support/installed-program.js';
import { makeCheckout, type Checkout } from './checkout.js';
import { listGuides } from './documents.js';
import { EXCEPTIONS, findException } from './exceptions.js';
import { readDocument } from './markdown.js';
import { openReader, type Reader } from './reader.js';
import { toSteps, type Step } from './steps.js';

const guides = listGuides()
  .map((path) => ({ path, steps: toSteps(readDocument(path).blocks) }))
  .filter(({ steps }) => steps.length > 0);

/** Tells whether nothing of a step is run, as the list of exceptions says. */
function isLeftOut(step: Step): boolean {
  return textsOf(step).every((text) => {
    const exception = findException(step.block.document, text);
    return exception !== undefined && exception.instead === undefined;
  });
}

/** What the list of exceptions names a step by: its commands, or the first line of a block. */
function textsOf(step: Step): string[] {
  return step.kind === 'shell' ? step.commands.map(({ text }) => text) : [firstLine(step)];
}

function firstLine({ block }: Step): string {
  return block.text.split('\n')[0] as string;
}

describeWith('curl', 'every block of the documents does what it says', () => {
  let checkout: Checkout;
  beforeAll(async () => {
    checkout = await makeCheckout();
  });
  afterAll(() => checkout.remove());

  describe.each(guides)('$path', ({ steps }) => {
    const run = steps.filter((step) => !isLeftOut(step));
    let reader: Reader;
    beforeAll(async () => {
      reader = await openReader(run, checkout.directory);
    });
    afterAll(() => reader.close());

    for (const step of run) {
      it(`line ${step.block.line}, ${step.block.language}: ${firstLine(step)}`, () => reader.follow(step));
    }
  });
});

describe('the list of exceptions', () => {
  const texts = new Set(guides.flatMap(({ path, steps }) => steps.flatMap(textsOf).map((text) => `${path}: ${text}`)));

  it.each(EXCEPTIONS)('has what stands in $document: $text', ({ document, text, reason }) => {
    expect(texts).toContain(`${document}: ${text}`);
    expect(reason).not.toBe('');
  });
});
