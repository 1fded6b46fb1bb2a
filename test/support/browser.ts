import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { describe } from 'vitest';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const SCREENSHOTS = fileURLToPath(new URL('../browser/screenshots/', import.meta.url));

const executablePath = process.env.CHROMIUM_PATH || PLACES.find((path) => existsSync(path));

/** A suite that needs Chromium. Without it, the suite is skipped with a warning, or fails with `CI=true`. */
export function describeInBrowser(name: string, suite: () => void): void {
  if (executablePath === undefined) {
    const message = `no Chromium for the browser tests "${name}": install one or set CHROMIUM_PATH`;
    if (process.env.CI === 'true') throw new Error(message);
    console.warn(`Skipped: ${message}`);
  }
  describe.skipIf(executablePath === undefined)(name, suite);
}

/**
 * Starts a Chromium that makes no requests of its own.
 * @param ignoreDefaultArgs - flags of Playwright to leave out
 */
export function startBrowser(ignoreDefaultArgs: string[] = []): Promise<Browser> {
  return chromium.launch({ executablePath, args: FLAGS, ignoreDefaultArgs, timeout: 60_000 });
}

/** A page with a record of its requests and errors. */
export interface WatchedPage {
  readonly page: Page;
  /** The origins of the requests that the page has made. */
  readonly origins: Set<string>;
  /** The errors on the console of the page, including violations of its content security policy. */
  readonly complaints: string[];
  readonly close: () => Promise<void>;
}

/** Opens a page in a new context: it shares no storage with other pages. */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<WatchedPage> {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const origins = new Set<string>();
  const complaints: string[] = [];
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== 'data:') origins.add(origin);
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  return { page, origins, complaints, close: () => context.close() };
}

/** The window sizes and color schemes for screenshots. */
export const LOOKS = (['light', 'dark'] as const).flatMap((colorScheme) => [
  { look: `desktop-${colorScheme}`, options: { colorScheme, viewport: { width: 1280, height: 800 } } },
  { look: `phone-${colorScheme}`, options: { colorScheme, viewport: { width: 390, height: 844 }, hasTouch: true } },
]);

/** Takes a screenshot, for people to look at. */
export async function photograph(page: Page, name: string): Promise<void> {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: `${SCREENSHOTS}${name}.png` });
}

/** Returns how far a page overflows its window to the right, in pixels. */
export function overflowOf(page: Page): Promise<number> {
  return page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
}

/**
 * Finds the accessibility faults that axe sees. A page with a content security policy needs `bypassCSP`.
 * @returns the rule and the elements of each fault
 */
export async function findFaults(page: Page): Promise<string[][]> {
  // axe fails if the page changes while it runs.
  await page.waitForTimeout(1_000);
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
  const { violations } = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>('axe.run()');
  return violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)]);
}
