// Text of a message.
import { make } from './elements.js';

export function composeText(text, role = '') {
  return make('div', { class: `text ${role === 'reasoning' ? 'dim' : ''}`.trim(), dir: 'auto' }, text);
}
