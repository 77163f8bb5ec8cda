// Field for the next message: Enter sends, Shift-Enter breaks the line, a draft and its files survive a reload.
import { composeAttachments } from './attachments.js';
import { keepFiles, recallFiles, ROOM_MB } from './draft-files.js';
import { make, press, say } from './elements.js';
import { recall, remember } from './service.js';

const TALLEST = 0.4; // of the window
let isRefused = false; // the browser stores no files, which was said

// `send` takes the message, a text or a list of parts, and resolves to the id of its conversation, or to '' if it was not sent.
// `stop` is offered while a run works. Files may be dropped anywhere until `signal` ends.
export function composeComposer({ label, send, stop, signal, extra = null }) {
  let draft = '';
  let isSending = false;
  let keeping = null; // files that are being stored for the draft
  let lost = []; // files that a reload would lose
  const words = make('textarea', {
    id: 'prompt',
    rows: 1,
    dir: 'auto',
    'aria-label': label,
    placeholder: label,
    enterkeyhint: 'send',
  });
  const go = make('button', { type: 'submit', class: 'main round', id: 'send', 'aria-label': 'Send' }, '↑');
  const halt = press('■', stop, { class: 'round', id: 'stop', 'aria-label': 'Stop', hidden: true });

  const chips = make('div', { class: 'chips' }); // filled when the offers are known
  const files = composeAttachments(() => (update(), keepAttached()));

  async function submit(event) {
    event?.preventDefault();
    if (isSending || isEmpty()) return;
    const text = words.value;
    isSending = true;
    update();
    try {
      await files.waitUntilRestored();
      const parts = files.read();
      const content = parts.length ? [...parts, ...(text.trim() ? [{ type: 'text', text }] : [])] : text;
      const id = await send(content);
      if (id) settle(id, text, parts);
    } finally {
      isSending = false;
      update();
      words.focus({ preventScroll: true });
    }
  }
  // Remove what was sent; what was added while it was sent stays, for the next message of the conversation.
  function settle(id, text, parts) {
    const isKept = recall(`draft-${draft}`) === words.value; // not after another key, or in another field
    words.value = words.value.startsWith(text) ? words.value.slice(text.length).trimStart() : words.value;
    files.discard(parts);
    if (isKept) {
      remember(`draft-${draft}`, '');
      if (draft !== id) keepFiles(draft, []).catch(() => {});
      draft = id;
      keep();
      keepAttached();
    }
    grow();
  }
  function keep() {
    remember(`draft-${draft}`, words.value);
    update();
  }
  async function keepAttached() {
    const attached = files.survey();
    const told = lost;
    keeping = attached;
    let left = attached;
    try {
      left = await keepFiles(draft, attached);
    } catch {
      if (!isRefused) say('The browser refuses to store files: a reload of the page would lose them.');
      isRefused = true;
    }
    if (keeping !== attached) return; // they have changed since
    keeping = null;
    lost = left;
    const fresh = isRefused ? [] : lost.filter((each) => !told.includes(each));
    const names = fresh.map((file) => file.name).join(', ');
    if (names) say(`Drafts keep ${ROOM_MB} MB of files: a reload would lose ${names}.`);
  }
  function grow() {
    words.style.height = 'auto';
    words.style.height = `${Math.min(words.scrollHeight + 2, TALLEST * innerHeight)}px`;
  }
  function isEmpty() {
    return !words.value.trim() && !files.read().length;
  }
  function update() {
    go.disabled = isSending || isEmpty();
  }
  words.addEventListener('input', () => (keep(), grow()));
  words.addEventListener('paste', (event) => {
    const pasted = event.clipboardData?.files ?? [];
    if (!pasted.length) return;
    event.preventDefault();
    files.add(pasted);
  });
  words.addEventListener('keydown', (event) => {
    // On a phone the key breaks the line: there is no other.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || matchMedia('(pointer: coarse)').matches) return;
    event.preventDefault();
    submit();
  });
  function hover(event) {
    if (!element.isConnected || !event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    element.classList.add('dropping');
  }
  function leave() {
    element.classList.remove('dropping');
  }
  function drop(event) {
    leave();
    if (!element.isConnected || !event.dataTransfer?.files.length) return;
    event.preventDefault();
    files.add(event.dataTransfer.files);
  }
  const element = make(
    'form',
    { class: 'composer', id: 'composer', on: { submit } },
    files.list,
    words,
    make('div', { class: 'bar' }, files.button, files.field, chips, halt, go),
    extra,
  );
  for (const [name, hear] of [
    ['dragover', hover],
    ['dragleave', leave],
    ['drop', drop],
  ])
    document.addEventListener(name, hear, { signal });
  // The browser asks before a reload that would lose files.
  addEventListener(
    'beforeunload',
    (event) => (keeping?.length || lost.length) && element.isConnected && event.preventDefault(),
    { signal },
  );
  return {
    element,
    chips,
    // Use the draft of a conversation.
    adopt(id) {
      draft = id || 'new';
      words.value = recall(`draft-${draft}`);
      update();
      requestAnimationFrame(grow);
      const recalled = recallFiles(draft);
      files.restore(recalled);
      files.waitUntilRestored().then(update);
      recalled.then(({ lost: names }) => names.length && say(`A reload has lost ${names.join(', ')}; attach again.`));
    },
    focus() {
      words.focus({ preventScroll: true });
    },
    setBusy(isBusy) {
      halt.hidden = !isBusy;
    },
  };
}
