// What branches off a conversation: a fork, another answer, a message that was edited.
import { make, press, quote, say } from './elements.js';
import { encode } from './attachments.js';
import { ask, fetchDocument } from './service.js';

const MEDIA = new Set(['image', 'audio', 'video', 'file']);

// `refresh` shows a run that was started in the conversation itself.
export function composeForking(main, { id, path, run, history, attempt, goTo, refresh }) {
  let isBusy = false;

  // Forks and runs are requested one at a time: a double click makes one. Until another page is open, or it failed.
  async function attemptOnce(perform) {
    if (isBusy) return;
    isBusy = true;
    const here = location.hash;
    const focused = document.activeElement;
    const buttons = main.querySelectorAll('.verbs button, .editing button, .ending button, #fork');
    for (const each of buttons) each.disabled = true;
    await attempt(perform);
    if (location.hash !== here) return;
    isBusy = false;
    for (const each of buttons) each.disabled = false;
    if (document.activeElement === document.body) focused.focus({ preventScroll: true });
  }

  async function fork(index) {
    const told = await ask(`${path}/fork`, { method: 'POST', body: index === undefined ? {} : { from_index: index } });
    return told.id;
  }
  const goToFork = (index) =>
    attemptOnce(async () => {
      goTo(await fork(index));
      say('Forked.');
    });

  // Ask again for an answer to the last message before a place.
  const retry = (index = history.count()) =>
    attemptOnce(async () => {
      let asked = index - 1;
      while (asked >= 0 && (await history.access(asked)).role !== 'user') asked -= 1;
      const isLast = asked === history.count() - 1;
      const where = isLast ? id : await fork(asked + 1);
      await run.start({ conversation: where });
      if (isLast) await refresh();
      else goTo(where);
    });

  const edit = (article, index) =>
    showEditor(article, path, (read) =>
      attemptOnce(async () => {
        const content = await read();
        if (!content) return;
        const where = await fork(index);
        await run.start({ conversation: where, input: { role: 'user', content } });
        goTo(where);
      }),
    );

  return { goToFork, retry, edit };
}

// A field for each text, so that texts and media stay in their order. `send` is called with a function that reads
// the edited content: null if no text is left.
function showEditor(article, path, send) {
  const contents = article.canister.content.filter((each) => each.type !== 'cache');
  const fields = contents.map((each) => (each.type === 'text' ? composeField(each.text ?? '') : null));
  const form = make(
    'form',
    { class: 'editing', on: { submit: (event) => (event.preventDefault(), send(read)) } },
    contents.map((each, at) => fields[at] ?? make('p', { class: 'facts' }, `[${each.type}] `, quote(each.name ?? ''))),
    make(
      'div',
      { class: 'actions' },
      make('button', { type: 'submit', class: 'main' }, 'Send as a fork'),
      press('Cancel', leave),
    ),
  );
  article.classList.add('edited');
  article.append(form);
  fields.findLast(Boolean).focus();

  function leave() {
    form.remove();
    article.classList.remove('edited');
  }
  async function read() {
    const parts = contents.map((each, at) => (fields[at] ? { type: 'text', text: fields[at].value } : each));
    const kept = parts.filter((each) => each.type !== 'text' || each.text.trim());
    if (!kept.some((each) => each.type === 'text')) return null;
    const content = await Promise.all(kept.map((each) => (each.type === 'text' ? each : readAgain(each, path))));
    return content.length > 1 ? content : content[0].text;
  }
}

function composeField(text) {
  const field = make('textarea', {
    rows: Math.min(12, text.split('\n').length + 1),
    dir: 'auto',
    'aria-label': 'Edit the message',
  });
  field.value = text;
  return field;
}

async function readAgain({ type, content_id: contentId, mime_type: kind, name: title }, path) {
  const { blob } = await fetchDocument(`${path}/contents/${encodeURIComponent(contentId)}`);
  return { type, data: await encode(blob), mime_type: kind, ...(title ? { name: title } : {}) };
}

// Return whether the daemon takes all contents of a message again: texts, and media that it has stored.
export function isSendable({ content }) {
  return content.every(
    ({ type, content_id: contentId }) => type === 'text' || type === 'cache' || (MEDIA.has(type) && contentId),
  );
}
