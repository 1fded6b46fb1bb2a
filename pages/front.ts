import './front.css';
import { copyOnClick } from './clipboard.js';
import { keyMemory } from './key-memory.js';

const curl = document.getElementById('curl') as HTMLElement;
const copy = document.getElementById('copy') as HTMLButtonElement;
const key = keyMemory.read();

curl.textContent = curl.textContent
  .replace(/http:\S+/, new URL('graphql', document.baseURI).href)
  .replace('YOUR_KEY', key || 'YOUR_KEY');

copyOnClick(copy, curl, key === '' ? 'Copied' : 'Copied with your key');
