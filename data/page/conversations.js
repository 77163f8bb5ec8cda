// Conversations: list and search.
import { complain, make, press, quote, say, show } from './elements.js';
import { linkToTalk } from './links.js';
import { ask } from './service.js';
import { tellShown } from './shell.js';
import { count, tellMoment, titleOf } from './words.js';

const PAGE = 50;

export async function showConversations(main, signal) {
  const words = make('input', {
    type: 'search',
    id: 'query',
    autocomplete: 'off',
    'aria-label': 'Search words',
    placeholder: 'Search',
  });
  const meaning = make('input', { type: 'checkbox', id: 'meaning' });
  const list = make('ul', { class: 'rows', 'aria-label': 'Conversations' });
  const notes = make('p', { class: 'warning', hidden: true });
  const none = make('p', { class: 'none', hidden: true });
  let last = '';
  const more = press('Show more', () => look(last), { hidden: true, id: 'more' });
  const form = make(
    'form',
    { role: 'search', class: 'search', on: { submit: (event) => (event.preventDefault(), look()) } },
    words,
    make('label', { for: 'meaning' }, meaning, ' By meaning'),
    make('button', { type: 'submit' }, 'Search'),
  );
  show(main, make('div', { class: 'head' }, make('h1', {}, 'Conversations'), form), notes, list, none, more);
  tellShown();

  async function look(after = '') {
    const query = new URLSearchParams({ limit: String(PAGE) });
    const sought = words.value.trim();
    if (sought) {
      query.set('query', sought);
      if (meaning.checked) query.set('by', 'meaning');
    } else if (after) {
      query.set('after', after);
    }
    try {
      const page = await ask(`conversations?${query}`, { signal });
      const rows = page.data.map(sought ? composeHit : composeRow);
      if (after) list.append(...rows);
      else show(list, rows);
      last = page.data.at(-1)?.id ?? '';
      none.textContent = sought ? 'No matches.' : 'There are no conversations yet.';
      none.hidden = list.children.length > 0;
      notes.textContent = page.notices.join(' ');
      notes.hidden = !page.notices.length;
      more.hidden = !page.has_more || Boolean(sought);
      if (sought) say(page.has_more ? `More than ${page.data.length} found.` : `${page.data.length} found.`);
      complain(null);
    } catch (error) {
      if (!signal.aborted) complain(error);
    }
  }
  await look();
}

function linkTo(row, text, index) {
  return make('a', { href: linkToTalk(row.id, index), class: 'title' }, quote(text));
}

function composeRow(row) {
  const facts = [
    tellMoment(row.updated),
    ` · ${count(row.canisters, 'message')}`,
    row.model ? ' · ' : null,
    row.model ? quote(row.model) : null,
  ];
  return make(
    'li',
    {},
    linkTo(row, titleOf(row)),
    make('span', { class: 'facts' }, facts),
    row.name && row.first_words ? make('span', { class: 'facts detail' }, quote(row.first_words)) : null,
  );
}

function composeHit(hit) {
  return make(
    'li',
    {},
    linkTo(hit, hit.name || hit.id, hit.index),
    make('span', { class: 'facts' }, `${hit.role}, message ${hit.index + 1} · `, tellMoment(hit.timestamp)),
    make('span', { class: 'snippet', dir: 'auto' }, markWords(hit.snippet, hit.marks)),
  );
}

// Positions count characters, not UTF-16 units.
function markWords(text, marks) {
  const letters = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [start, end] of marks) {
    parts.push(letters.slice(at, start).join(''), make('mark', {}, letters.slice(start, end).join('')));
    at = end;
  }
  return [...parts, letters.slice(at).join('')];
}
