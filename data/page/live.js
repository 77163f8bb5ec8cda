// An answer in progress, from the pieces that the event stream carries.
import { make, quote } from './elements.js';
import { composeReasoning } from './messages.js';
import { composeGrowing, composeText } from './texts.js';
import { layOut, reveal } from './words.js';

// Return the place of the answer; `feed` takes an event, `clear` empties the place.
export function composeLive() {
  const dots = make('span', { class: 'dots', 'aria-hidden': 'true' }, '●');
  const element = make('div', { class: 'live', hidden: true, role: 'group', 'aria-label': 'Answer in progress' });
  let parts = new Map();
  let isOver = false;

  function clear() {
    parts = new Map();
    isOver = false;
    element.replaceChildren();
    element.hidden = true;
  }
  function begin() {
    clear();
    element.append(dots);
    element.hidden = false;
  }
  function access(event) {
    let part = parts.get(event.index);
    if (!part) {
      part = composePart(event);
      if (!part) return null;
      parts.set(event.index, part);
      element.append(part.element, dots);
      element.hidden = false;
    }
    return part;
  }
  function feed({ id, type, data }) {
    if (type === 'step.started') begin();
    else if (type === 'step.completed' || type === 'step.failed') isOver = true;
    else if (!id && type === 'content.started') access({ ...data.event, isWhole: true });
    else if (!id && type === 'content.delta') access(data.event)?.add(data.event);
  }
  // The stored messages show the answer once it is over.
  const settle = (isIdle) => (isOver || isIdle) && clear();
  return { element, feed, settle };
}

// The beginning of a content is missed if the stream was joined late.
function composePart({ kind, name = '', isWhole }) {
  let text = isWhole ? '' : '… ';
  if (kind === 'text' || kind === 'refusal' || kind === 'reasoning') {
    const shown = composeText(text, kind);
    const update = composeGrowing(shown);
    const element = kind === 'reasoning' ? composeReasoning(shown) : shown;
    return {
      element,
      add(event) {
        if (!['text', 'summary', undefined].includes(event.channel)) return; // a signature, for example
        text += event.text;
        update(text);
      },
    };
  }
  if (kind === 'invocation') {
    const shown = make('pre', { dir: 'ltr' });
    const element = make(
      'details',
      { class: 'fold message invocation' },
      make('summary', {}, 'Calls ', quote(reveal(name))),
      make('div', { class: 'content' }, shown),
    );
    return {
      element,
      add(event) {
        text += event.text;
        shown.textContent = layOut(text);
      },
    };
  }
  return null;
}
