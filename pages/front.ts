import './front.css';
import { keyMemory } from './key-memory.js';

const curl = document.getElementById('curl') as HTMLElement;
const copy = document.getElementById('copy') as HTMLButtonElement;
const key = keyMemory.read();

curl.textContent = curl.textContent
  .replace(/http:\S+/, new URL('graphql', document.baseURI).href)
  .replace('YOUR_KEY', key || 'YOUR_KEY');

copy.addEventListener('click', () => {
  navigator.clipboard.writeText(curl.textContent).then(
    () => (copy.textContent = 'Copied'),
    // Without permission, the user can press Ctrl-C.
    () => getSelection()?.selectAllChildren(curl),
  );
});
