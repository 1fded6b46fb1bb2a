import './front.css';
import { copyText } from './clipboard.js';
import { keyMemory } from './key-memory.js';

const curl = document.getElementById('curl') as HTMLElement;
const copy = document.getElementById('copy') as HTMLButtonElement;
const key = keyMemory.read();

curl.textContent = curl.textContent
  .replace(/http:\S+/, new URL('graphql', document.baseURI).href)
  .replace('YOUR_KEY', key || 'YOUR_KEY');

copy.addEventListener('click', () => {
  void copyText(curl.textContent).then((isCopied) => {
    if (isCopied) copy.textContent = key === '' ? 'Copied' : 'Copied with your key';
    // The user can press Ctrl-C.
    else getSelection()?.selectAllChildren(curl);
  });
});
