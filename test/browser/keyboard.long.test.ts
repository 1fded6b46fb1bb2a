import { readdirSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeInBrowser, openPage, startBrowser } from '../support/browser.js';
import { startGateway, type Gateway } from '../support/gateway.js';

const DOCUMENTS = readdirSync(new URL('../../docs/', import.meta.url)).filter((name) => name.endsWith('.md'));
/** Each page, and the element that shows that it is complete. */
const PAGES = [
  ['/', '.links a'],
  ['/explorer', 'div[aria-label="Response"]'],
  ['/reference', '.opblock'],
  ['/key', '#plot svg'],
  ...['README', ...DOCUMENTS.map((name) => name.replace('.md', ''))].map((name) => [`/docs/${name}`, 'h1'] as const),
] as const;
const EDITORS = ['Operation', 'Variables', 'Headers', 'Response'];
const CONTROLS = 'a[href], button, input, select, textarea, summary, [tabindex], [contenteditable=true]';
const FOCUSED = '[document.activeElement]';
/** More keys than any page has controls. */
const MOST_KEYS = 500;

describeInBrowser('the keyboard alone', () => {
  let gateway: Gateway;
  let browser: Browser;

  beforeAll(async () => {
    gateway = await startGateway('embedded', {
      NODE_ENV: 'development',
      SAMPLE_DATA: 'true',
      KEY_SELF_ROTATION: 'true',
    });
    browser = await startBrowser();
  }, 120_000);
  afterAll(async () => {
    await browser.close();
    await gateway.close();
  });

  async function open(path: string, complete: string) {
    const watched = await openPage(browser, { viewport: { width: 1280, height: 800 } });
    await watched.page.addInitScript(`sessionStorage['animal-store:key'] ??= '${(await gateway.createKey()).key}'`);
    await watched.page.goto(gateway.url + path);
    await watched.page.locator(complete).first().waitFor();
    await watched.page.waitForLoadState('networkidle');
    // Some controls appear bit by bit.
    let before = '';
    const isStable = async (): Promise<boolean> => before === (before = String(await controlsOf(watched.page)));
    await expect.poll(isStable, { interval: 500 }).toBe(true);
    return watched;
  }

  it.each(PAGES)('walks through all of %s and back', async (path, complete) => {
    const { page, close } = await open(path, complete);
    await walkBothWays(page);
    await close();
  });

  it('walks through the explorer with each panel and editor open', async () => {
    const { page, close } = await open('/explorer', 'div[aria-label="Response"]');
    await press(page, 'Execute query', 'Enter');
    await page.locator('.result-window').getByText('Bella').waitFor();
    await press(page, 'Headers', 'Space');
    for (const panel of ['Documentation Explorer', 'History']) {
      await press(page, `Show ${panel}`, 'Enter');
      await page.getByLabel(`Hide ${panel}`).waitFor();
      await walkBothWays(page);
    }
    await close();
  });

  it('walks through the page of a key with the numbers open, before and after a new secret', async () => {
    const { page, close } = await open('/key', '#plot svg');
    await page.locator('summary').press('Enter');
    await page.getByRole('region', { name: 'The numbers' }).waitFor();
    await walkBothWays(page);
    await press(page, 'Make a new secret', 'Enter');
    await page.getByText('Until then, the new one cannot be replaced.').waitFor();
    await walkBothWays(page);
    await close();
  });

  it('walks through the reference with an operation open', async () => {
    const { page, close } = await open('/reference', '.opblock');
    await page.locator('.opblock-summary-control').first().press('Enter');
    await page.locator('.execute').waitFor();
    // The rest of the operation appears bit by bit.
    await page.waitForTimeout(1_000);
    await walkBothWays(page);
    await close();
  });

  it.each(EDITORS)('leaves the editor "%s" after Escape, in both directions, as the page says', async (name) => {
    const { page, close } = await open('/explorer', 'div[aria-label="Response"]');
    if (name === 'Headers') await press(page, 'Headers', 'Space');
    const editor = page.getByRole('textbox', { name, exact: true });
    const isInside = (): Promise<boolean> =>
      page.evaluate(`document.activeElement.closest('.CodeMirror')?.querySelector('[aria-label="${name}"]') != null`);
    for (const key of ['Tab', 'Shift+Tab']) {
      await editor.focus();
      expect(await isInside()).toBe(true);
      const text = await editor.innerText();
      await page.keyboard.press('Escape');
      await page.keyboard.press(key);
      expect([key, await isInside(), await editor.innerText()]).toEqual([key, false, text]);
    }
    const help = 'To leave an editor with the keyboard, press Escape, then Tab or Shift-Tab.';
    expect(await page.getByText(help).isVisible()).toBe(true);
    const description = await editor.getAttribute('aria-describedby');
    expect(await page.locator(`#${description as string}`).innerText()).toContain(help);
    await close();
  });

  it('still indents with Tab in an editor, also after Escape and another key', async () => {
    const { page, close } = await open('/explorer', 'div[aria-label="Response"]');
    const editor = page.getByRole('textbox', { name: 'Operation', exact: true });
    await editor.focus();
    for (const keys of [['Tab'], ['Escape', 'ArrowDown', 'Tab']]) {
      const before = (await editor.innerText()).length;
      for (const key of keys) await page.keyboard.press(key);
      await expect.poll(async () => (await editor.innerText()).length).toBeGreaterThan(before);
    }
    await close();
  });
});

/** Presses a key on the control with this name. */
async function press(page: Page, name: string, key: string): Promise<void> {
  await page.getByRole('button', { name }).first().press(key);
}

/** Walks from the first control to the last one and back. Every control must be reached in both directions. */
async function walkBothWays(page: Page): Promise<void> {
  const controls = await controlsOf(page);
  await page.locator('a, button, input').first().focus();
  const first = await namesOf(page, FOCUSED);
  expect([...first, ...(await walk(page, 'Tab', first))]).toEqual(controls);
  expect(await walk(page, 'Shift+Tab')).toEqual(controls.reverse());
}

/** Presses a key until the page ends or the focus is where it was before. Returns the names of what it reached. */
async function walk(page: Page, key: 'Tab' | 'Shift+Tab', before: readonly string[] = []): Promise<readonly string[]> {
  const reached: string[] = [];
  for (let count = 0; count < MOST_KEYS; count++) {
    if (await page.evaluate('document.activeElement.closest(".CodeMirror") !== null')) {
      await page.keyboard.press('Escape');
    }
    await page.keyboard.press(key);
    const [name] = await namesOf(page, FOCUSED);
    if (name === undefined || [...before, ...reached].includes(name)) return reached;
    reached.push(name);
  }
  throw new Error(`${MOST_KEYS} keys, and no end: ${reached.join(', ')}`);
}

/** The names of the controls that a page shows, in their order in the document. */
function controlsOf(page: Page): Promise<string[]> {
  return namesOf(
    page,
    `[...document.querySelectorAll('${CONTROLS}')].filter((element) =>
      element.tabIndex >= 0 && !element.disabled && element.checkVisibility({ visibilityProperty: true }))`,
  );
}

/** Names elements for people, and numbers them, so that no two have the same name. */
function namesOf(page: Page, elements: string): Promise<string[]> {
  return page.evaluate(`(() => {
    const numbers = (window.numbers ??= new Map());
    return ${elements}.filter((element) => element !== document.body).map((element) => {
      if (!numbers.has(element)) numbers.set(element, numbers.size);
      const name = element.getAttribute('aria-label') ?? element.textContent.trim().slice(0, 30);
      return [numbers.get(element), element.tagName, name].join(' ');
    });
  })()`);
}
