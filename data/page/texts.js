// Text of a message: that of a model is Markdown, all other text is shown as it was written.
import { make, sanitize } from './elements.js';
import { loadMarkdown, patch, renderMarkdown } from './markdown.js';

const MARKED = new Set(['assistant', 'text', 'reasoning']);
const SHARE = 4; // a growing text is drawn again after so many times the time that it took

export function composeText(text, role = '') {
  const element = make('div', { class: `text ${role === 'reasoning' ? 'dim' : ''}`.trim(), dir: 'auto' });
  if (MARKED.has(role)) draw(element, text);
  else element.append(sanitize(text));
  return element;
}

function draw(element, text) {
  const drawn = renderMarkdown(text);
  if (drawn) {
    element.classList.add('markdown');
    patch(element, drawn);
    return;
  }
  element.textContent = sanitize(text);
  loadMarkdown()
    .then(() => element.dispatchEvent(new Event('ready')))
    .catch(() => {}); // the text stays as it is
  element.addEventListener('ready', () => draw(element, element.source ?? text), { once: true });
}

// Return a function that replaces the text of an element, often, at a bounded cost.
export function composeGrowing(element) {
  let timer = 0;
  let pause = 50;
  return function update(text) {
    element.source = text;
    timer ||= setTimeout(() => {
      timer = 0;
      const before = performance.now();
      draw(element, element.source);
      pause = Math.max(50, SHARE * (performance.now() - before));
    }, pause);
  };
}
