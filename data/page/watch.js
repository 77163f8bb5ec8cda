// Shared by the pages for watching runs: their style sheet, and conditions in the address.
import { loadStyle } from './elements.js';

loadStyle('watch.css');

// Conditions in the address, behind the question mark of the fragment.
export function readConditions() {
  return new URLSearchParams(location.hash.split('?').slice(1).join('?'));
}

// Keep conditions in the address, so that it can be shared, without a new page of the history.
export function writeConditions(conditions) {
  const [place] = location.hash.split('?');
  const text = String(conditions);
  history.replaceState(history.state, '', text ? `${place}?${text}` : place);
}
