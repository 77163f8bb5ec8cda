// What was said, canister by canister.
import { make, press, quote } from './elements.js';
import { ask } from './service.js';
import { layOut, reveal, tellMoment } from './words.js';

const PAGE = 200;
const WORDS = {
  user: 'User',
  supervisor: 'Supervisor',
  document: 'Document',
  assistant: 'Assistant',
  invocation: 'Calls',
  result: 'Result',
};

// Adds what a place does not show yet; a conversation only grows.
export async function composeMessages(place, id, signal, { onFork } = {}) {
  for (;;) {
    const after = place.querySelectorAll(':scope > article').length;
    const page = await ask(`conversations/${encodeURIComponent(id)}?limit=${PAGE}&after=${after}`, { signal });
    if (place.querySelectorAll(':scope > article').length !== after) continue; // another was faster
    place.append(...page.data.map((each, index) => composeMessage(each, after + index, onFork)));
    if (!page.has_more) return page;
  }
}

function composeMessage(canister, index, onFork) {
  const role = WORDS[canister.role] ?? canister.role;
  const named = canister.name ?? canister.title;
  const call = canister.role === 'invocation' ? canister.arguments ?? '' : null;
  return make(
    'article',
    { class: `message ${WORDS[canister.role] ? canister.role : ''}`, id: `message-${index}`, 'aria-label': `${role} ${index + 1}` },
    make(
      'header',
      {},
      make('h3', {}, role, named ? ' ' : null, named ? quote(reveal(named)) : null),
      canister.is_error ? make('span', { class: 'mark failed' }, 'error') : null,
      make('span', { class: 'facts' }, tellMoment(canister.timestamp)),
      onFork ? press('Fork here', () => onFork(index + 1), { class: 'quiet', 'aria-label': `Fork behind message ${index + 1}` }) : null,
    ),
    call === null ? null : make('pre', { dir: 'ltr' }, canister.form === 'text' ? reveal(call) : layOut(call)),
    (canister.content ?? []).map(composeContent),
  );
}

function composeContent(content) {
  if (content.type === 'text' || content.type === 'refusal') {
    return make('div', { class: 'text', dir: 'auto' }, content.text ?? '');
  }
  if (content.type === 'reasoning') {
    const told = content.text || content.summary || '(kept by the vendor)';
    return make('details', {}, make('summary', {}, 'Reasoning'), make('div', { class: 'text', dir: 'auto' }, told));
  }
  const about = [content.mime_type, content.name, content.url].filter(Boolean).join(' · ');
  return make('p', { class: 'facts' }, `[${content.type}] `, quote(about));
}
