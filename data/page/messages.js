// The messages of a conversation, one article per canister.
import { markSummary } from './compaction.js';
import { complain, make, press, quote, save } from './elements.js';
import { ask, fetchDocument } from './service.js';
import { composeText } from './texts.js';
import { count, layOut, reveal, tellMoment } from './words.js';

const PAGE = 200;
const PICTURES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
export const WORDS = {
  user: 'You',
  supervisor: 'System prompt',
  document: 'Document',
  assistant: 'Assistant',
  invocation: 'Calls',
  result: 'Result',
};
const FOLDED = new Set(['supervisor', 'document', 'invocation', 'result']);
const PREVIEW = 90;
const MOST = 120; // characters of a title

// Append the messages that are not shown yet; a conversation only grows. `verbs` returns the
// buttons of a message.
export async function composeMessages(place, id, signal, { verbs = () => [], level = 3 } = {}) {
  for (;;) {
    const after = place.querySelectorAll(':scope > article').length;
    const page = await ask(`conversations/${encodeURIComponent(id)}?limit=${PAGE}&after=${after}`, { signal });
    if (place.querySelectorAll(':scope > article').length !== after) continue; // another call was faster
    place.append(...page.data.map((each, index) => composeMessage(each, after + index, { id, signal, verbs, level })));
    if (!page.has_more) return page;
  }
}

// Title of a conversation without a name.
export function readFirstWords(place) {
  return place.querySelector('.message.user .text')?.textContent.trim().slice(0, MOST) ?? '';
}

// The same, from the user's first message.
export function tellFirstWords(canister) {
  return readText(canister).replace(/\s+/g, ' ').trim().slice(0, MOST);
}

export function readText(canister) {
  return (canister.content ?? []).filter((each) => each.type === 'text').map((each) => each.text ?? '').join('\n\n');
}

export function composeMessage(canister, index, { id, signal, verbs, level }) {
  const { role } = canister;
  const known = WORDS[role] ?? role;
  const named = canister.name ?? canister.title;
  const head = make(`h${level}`, {}, known, named ? ' ' : null, named ? quote(reveal(named)) : null);
  const mark = canister.is_error ? make('span', { class: 'mark failed' }, 'error') : null;
  const whole = make('div', { class: 'content' }, composeContents(canister, id, signal));
  const facts = make('span', { class: 'facts' }, tellMoment(canister.timestamp), tellOrigin(canister));
  const buttons = verbs(canister, index);
  const article = make('article', {
    class: `message ${WORDS[role] ? role : ''} ${role === 'assistant' && !readText(canister) ? 'wordless' : ''}`.trim(),
    id: `message-${index}`,
    'aria-label': `${known} ${index + 1}`,
  });
  article.canister = canister;
  const foot = make('footer', {}, facts, buttons.length ? make('span', { class: 'verbs' }, buttons) : null);
  if (FOLDED.has(role)) {
    const preview = make('span', { class: 'facts preview' }, quote(tellShort(canister)));
    article.append(make('details', { class: 'fold' }, make('summary', {}, head, mark, preview), whole, foot));
  } else {
    article.append(make('header', {}, head, mark), whole, foot);
  }
  if (canister.summarizes) markSummary(article, canister);
  return article;
}

function tellShort(canister) {
  const text = canister.role === 'invocation' ? canister.arguments ?? '' : readText(canister);
  const line = reveal(text.slice(0, 4 * PREVIEW)).replace(/(\\u000a|\s)+/g, ' ').trim();
  return line.length > PREVIEW ? `${line.slice(0, PREVIEW)}…` : line;
}

function tellOrigin({ origin }) {
  if (!origin) return null;
  const { usage } = origin;
  const tokens = ['input_tokens', 'output_tokens', 'reasoning_tokens', 'cache_read_tokens', 'cache_write_tokens']
    .reduce((sum, name) => sum + (usage?.[name] ?? 0), 0);
  return [' · ', quote(origin.model || origin.provider || ''), tokens ? ` · ${count(tokens, 'token')}` : ''];
}

function composeContents(canister, id, signal) {
  // A cache hint is only for vendors.
  const contents = (canister.content ?? []).filter((each) => each.type !== 'cache');
  const isCall = canister.role === 'invocation';
  return [
    isCall
      ? make(
          'pre',
          { dir: 'ltr' },
          canister.form === 'text' ? reveal(canister.arguments ?? '') : layOut(canister.arguments ?? ''),
        )
      : null,
    contents.map((each) => composeContent(each, id, signal, canister.role)),
  ];
}

function composeContent(content, id, signal, role) {
  if (content.type === 'text') return composeText(content.text ?? '', role);
  if (content.type === 'refusal') {
    return make('div', {}, make('span', { class: 'mark failed' }, 'refused'), composeText(content.text ?? '', role));
  }
  if (content.type === 'reasoning') {
    const told = content.text || (content.summary ?? []).join('\n\n') || '(kept by the vendor)';
    return composeReasoning(composeText(told, 'reasoning'));
  }
  return composeMedia(content, id, signal);
}

export function composeReasoning(text) {
  return make(
    'details',
    { class: 'fold reasoning' },
    make('summary', {}, 'Reasoning'),
    make('div', { class: 'content' }, text),
  );
}

// Stored media can be viewed or saved; other media are only named, because the page loads nothing from other servers.
function composeMedia(content, id, signal) {
  const about = [content.mime_type, content.name ?? content.title, content.url].filter(Boolean).join(' · ');
  const told = make('p', { class: 'facts' }, `[${content.type}] `, quote(about));
  const words = content.transcript || (content.type === 'native' ? content.text : '');
  const place = make('div', { class: 'media' }, told, words ? composeText(words) : null);
  if (!content.content_id) return place;
  const read = () =>
    fetchDocument(`conversations/${encodeURIComponent(id)}/contents/${encodeURIComponent(content.content_id)}`, {
      signal,
    });
  if (PICTURES.has(content.mime_type)) {
    const picture = make('img', { alt: content.name ? `Picture ${content.name}` : 'Picture', loading: 'lazy' });
    const larger = press('View', () => view(shown, picture.alt), {
      class: 'quiet',
      'aria-label': `View ${picture.alt}`,
      hidden: true,
    });
    let shown = null;
    place.prepend(picture);
    told.append(' ', larger);
    place.classList.add('picture');
    read()
      .then(({ blob }) => {
        picture.addEventListener('load', () => URL.revokeObjectURL(picture.src), { once: true });
        shown = blob.slice(0, blob.size, content.mime_type);
        picture.src = URL.createObjectURL(shown);
        picture.addEventListener('click', () => larger.click());
        larger.hidden = false;
      })
      .catch(() => picture.remove()); // its description stays
  }
  const name = content.name || content.type;
  told.append(
    ' ',
    press(
      'Save',
      () =>
        read()
          .then(({ blob }) => save(blob, name))
          .catch(complain),
      { class: 'quiet', 'aria-label': `Save ${name}` },
    ),
  );
  return place;
}

// Show a picture as large as the window allows.
function view(blob, name) {
  const url = URL.createObjectURL(blob);
  const dialog = make(
    'dialog',
    {
      class: 'viewer',
      'aria-label': name,
      on: { close: () => (URL.revokeObjectURL(url), dialog.remove()), click: () => dialog.close() },
    },
    make('img', { src: url, alt: name }),
    press('Close', () => dialog.close(), { 'aria-label': 'Close the picture' }),
  );
  document.body.append(dialog);
  dialog.showModal();
}
