import '../front.css';
import './style.css';
import { copyOnClick } from '../clipboard.js';
import { keyMemory } from '../key-memory.js';
import { formatSeconds, secondsUntil } from '../seconds.js';
import type { Key, KeyUsage } from '../../packages/client/src/key.js';
import type { LimitWindow } from '../../packages/client/src/limits.js';
import { ask } from './ask.js';
import { DAYS, drawUsage, format, sum, sumBy, toDays, type UsageRow } from './plot.js';

const find = (id: string): HTMLElement => document.getElementById(id) as HTMLElement;
const field = find('key') as HTMLInputElement;
const rotateButton = find('rotate') as HTMLButtonElement;
const copy = find('copy') as HTMLButtonElement;
const secret = find('secret');

/** What is deprecated looks animals up by id, in GraphQL or REST. */
const ADVICE =
  'It will be removed on 5 December 2030. Ask for the list of animals with the status filter instead, and keep them by id.';

/** The key that was submitted last, how many were, and what the server says of it. */
let keyInUse = '';
let runs = 0;
let shown: { readonly windows: readonly LimitWindow[]; readonly usage: KeyUsage } | undefined;

find('form').addEventListener('submit', (event) => {
  event.preventDefault();
  secret.hidden = true;
  void show(field.value.trim().replace(/^bearer\s+/i, ''));
});
rotateButton.addEventListener('click', () => void rotate());
copyOnClick(copy, secret.querySelector('code') as HTMLElement, 'Copied');
new ResizeObserver(() => shown && drawUsage(find('plot'), find('legend'), shown.usage)).observe(find('plot'));
setInterval(showWindows, 1_000);
field.value = keyMemory.read();
if (field.value !== '') void show(field.value);

async function show(key: string): Promise<void> {
  keyMemory.write((keyInUse = key));
  const run = (runs += 1);
  shown = undefined;
  find('answer').hidden = true;
  say('');
  if (key === '') return;
  try {
    const { answer: facts, windows } = await ask('', key);
    const { answer: usage } = await ask(`/usage?days=${DAYS}`, key);
    if (run !== runs) return;
    shown = { windows, usage: usage as KeyUsage };
    find('answer').hidden = false;
    showKey(facts as Key);
    showUsage(shown.usage);
  } catch (error) {
    if (run === runs) say((error as Error).message);
  }
}

function say(text: string): void {
  find('message').textContent = text;
}

function showKey(key: Key): void {
  const { label, plan, readOnly, createdAt, expiresAt, lastUsedAt, secretEndsAt, previousEndsAt, canRotate } = key;
  const isOld = secretEndsAt !== expiresAt;
  const isReplaced = previousEndsAt !== null && Date.parse(previousEndsAt) > Date.now();
  if (isOld) say(`This secret was replaced by a new one, and works until ${toTime(secretEndsAt)}.`);
  find('facts').textContent =
    `${key.id}${label === null ? '' : `, "${label}"`}: ${plan} plan${readOnly ? ', read-only' : ''}. ` +
    `Created ${toTime(createdAt)}, last used ${toTime(lastUsedAt, 'not in a year')}, ${expiresAt ? `ends ${toTime(expiresAt)}` : 'never ends'}.`;
  find('rotation').hidden = !canRotate;
  rotateButton.hidden = isReplaced;
  find('rotation-hint').textContent = isReplaced
    ? `The old secret works until ${toTime(previousEndsAt)}. Until then, the new one cannot be replaced.`
    : 'The old secret works for another 24 hours, so that you can put the new one in its place everywhere.';
  showWindows();
}

/** Shows what is left now. A closed window is full again. */
function showWindows(): void {
  for (const bar of document.querySelectorAll('meter')) {
    const window = shown?.windows.find(({ name }) => name === bar.id);
    if (!window) continue;
    const { limit, remaining, resetAt } = window;
    const seconds = secondsUntil(resetAt, Date.now());
    const left = seconds > 0 ? remaining : limit;
    const reset = left < limit ? `, resets in ${formatSeconds(seconds)}` : '';
    Object.assign(bar, { max: limit, low: limit / 5, optimum: limit, value: left });
    (bar.labels[0] as HTMLElement).textContent = `${format(left)} of ${format(limit)} a ${bar.id}${reset}`;
  }
}

function showUsage(usage: KeyUsage): void {
  const { rows, isCut, since } = usage;
  const today = rows.filter(({ day }) => day === toDays(since).at(-1));
  const [most] = sumBy(today, toUser);
  const part = most?.[1] ? `, ${format(most[1])} of them by ${most[0]}` : '';
  const all = `Today ${format(sum(today, 'cost'))} requests${part}. In ${DAYS} days ${format(sum(rows, 'cost'))}. Days are in UTC.`;
  find('summary').textContent = isCut ? `${all} There is more, of earlier days, than this page shows.` : all;
  drawUsage(find('plot'), find('legend'), usage);
  const names = ['Day', 'Client', 'Operation', 'Cost', 'Requests', 'Errors', 'Deprecated'];
  const header = create('tr');
  header.append(...names.map((name) => Object.assign(create('th', name), { scope: 'col' })));
  const lines = rows.map(({ day, client, operation, cost, requests, errors, deprecatedCalls }) => {
    const line = create('tr');
    const counts = [cost, requests, errors, deprecatedCalls].map((count) => create('td', format(count)));
    line.append(...[day, client ?? '', operation].map((text) => create('td', text)), ...counts);
    return line;
  });
  find('rows').replaceChildren(header, ...lines);
  const coordinates = [...new Set(rows.flatMap(({ deprecated }) => deprecated))];
  const advice = coordinates.map((coordinate) => {
    const calls = rows.filter(({ deprecated }) => deprecated.includes(coordinate));
    const users = [...new Set(calls.map(toUser))].slice(0, 5).join(', ');
    const item = create('li');
    item.append(
      create('code', coordinate),
      ` ${format(sum(calls, 'deprecatedCalls'))} calls, last on ${calls[0]?.day ?? ''}, by ${users}. ${ADVICE}`,
    );
    return item;
  });
  find('deprecated').replaceChildren(...(advice.length > 0 ? advice : [create('li', 'None.')]));
}

async function rotate(): Promise<void> {
  rotateButton.disabled = true;
  try {
    const { answer } = await ask('/rotate', keyInUse, 'POST');
    const { key } = answer as { readonly key: string };
    field.value = key;
    (secret.querySelector('code') as HTMLElement).textContent = key;
    copy.textContent = 'Copy';
    secret.hidden = false;
    copy.focus();
    await show(key);
    if (shown) say('The secret was replaced.');
  } catch (error) {
    say((error as Error).message);
  }
  rotateButton.disabled = false;
}

function toUser({ client, operation }: UsageRow): string {
  return client === null ? operation : `${operation} of ${client}`;
}

function toTime(time: string | null, none = ''): string {
  return time === null ? none : new Date(time).toLocaleString('en', { dateStyle: 'medium', timeStyle: 'short' });
}

function create<Name extends keyof HTMLElementTagNameMap>(name: Name, text = ''): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}
