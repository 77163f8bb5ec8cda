// The messages of a conversation, one article per canister.
import { complain, make, press, quote, save } from './elements.js';
import { ask, fetchDocument } from './service.js';
import { layOut, reveal, tellMoment } from './words.js';

const PAGE = 200;
const PICTURES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
const WORDS = {
  user: 'User',
  supervisor: 'Supervisor',
  document: 'Document',
  assistant: 'Assistant',
  invocation: 'Calls',
  result: 'Result',
};

// Append the messages that are not shown yet; a conversation only grows.
export async function composeMessages(place, id, signal, { onFork, level = 3 } = {}) {
  for (;;) {
    const after = place.querySelectorAll(':scope > article').length;
    const page = await ask(`conversations/${encodeURIComponent(id)}?limit=${PAGE}&after=${after}`, { signal });
    if (place.querySelectorAll(':scope > article').length !== after) continue; // another call was faster
    place.append(...page.data.map((each, index) => composeMessage(each, after + index, { id, signal, onFork, level })));
    if (!page.has_more) return page;
  }
}

// Title of a conversation without a name.
export function readFirstWords(place) {
  return place.querySelector('.message.user .text')?.textContent.trim().slice(0, 120) ?? '';
}

function composeMessage(canister, index, { id, signal, onFork, level }) {
  const role = WORDS[canister.role] ?? canister.role;
  const named = canister.name ?? canister.title;
  const call = canister.role === 'invocation' ? canister.arguments ?? '' : null;
  return make(
    'article',
    { class: `message ${WORDS[canister.role] ? canister.role : ''}`, id: `message-${index}`, 'aria-label': `${role} ${index + 1}` },
    make(
      'header',
      {},
      make(`h${level}`, {}, role, named ? ' ' : null, named ? quote(reveal(named)) : null),
      canister.is_error ? make('span', { class: 'mark failed' }, 'error') : null,
      make('span', { class: 'facts' }, tellMoment(canister.timestamp)),
      onFork ? press('Fork here', () => onFork(index + 1), { class: 'quiet', 'aria-label': `Fork after message ${index + 1}` }) : null,
    ),
    call === null ? null : make('pre', { dir: 'ltr' }, canister.form === 'text' ? reveal(call) : layOut(call)),
    // A cache hint is only for vendors.
    (canister.content ?? []).filter((each) => each.type !== 'cache').map((each) => composeContent(each, id, signal)),
  );
}

function composeContent(content, id, signal) {
  if (content.type === 'text') return composeText(content.text ?? '');
  if (content.type === 'refusal') {
    return make('div', {}, make('span', { class: 'mark failed' }, 'refused'), composeText(content.text ?? ''));
  }
  if (content.type === 'reasoning') {
    const told = content.text || (content.summary ?? []).join('\n\n') || '(kept by the vendor)';
    return make('details', {}, make('summary', {}, 'Reasoning'), composeText(told));
  }
  return composeMedia(content, id, signal);
}

function composeText(text) {
  return make('div', { class: 'text', dir: 'auto' }, text);
}

// Stored media can be viewed or saved; other media are only named, because the page loads nothing from other servers.
function composeMedia(content, id, signal) {
  const about = [content.mime_type, content.name ?? content.title, content.url].filter(Boolean).join(' · ');
  const told = make('p', { class: 'facts' }, `[${content.type}] `, quote(about));
  const words = content.transcript || (content.type === 'native' ? content.text : '');
  const place = make('div', { class: 'media' }, told, words ? composeText(words) : null);
  if (!content.content_id) return place;
  const read = () => fetchDocument(`conversations/${encodeURIComponent(id)}/contents/${encodeURIComponent(content.content_id)}`, { signal });
  if (PICTURES.has(content.mime_type)) {
    const picture = make('img', { alt: content.name ? `Picture ${content.name}` : 'Picture', loading: 'lazy' });
    place.prepend(picture);
    read()
      .then(({ blob }) => {
        picture.addEventListener('load', () => URL.revokeObjectURL(picture.src), { once: true });
        picture.src = URL.createObjectURL(blob.slice(0, blob.size, content.mime_type));
      })
      .catch(() => picture.remove()); // its description stays
  } else {
    const name = content.name || content.type;
    told.append(' ', press('Save', () => read().then(({ blob }) => save(blob, name)).catch(complain), { class: 'quiet', 'aria-label': `Save ${name}` }));
  }
  return place;
}
