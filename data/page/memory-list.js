// The list of notes, by scope or as found by a search.
import { complain, make, press, quote, say, show } from './elements.js';
import { linkToNote } from './links.js';
import { SCOPES } from './memory-new.js';
import { ask } from './service.js';
import { count, tellMoment } from './words.js';

const PAGE = 200;
const FOUND = 50;

export function composeList(current, signal) {
  const words = make('input', {
    type: 'search',
    id: 'query',
    autocomplete: 'off',
    'aria-label': 'Search notes',
    placeholder: 'Search',
  });
  const meaning = make('input', { type: 'checkbox', id: 'meaning' });
  const scope = make(
    'select',
    { id: 'scope', 'aria-label': 'Scope', on: { change: () => look() } },
    make('option', { value: '' }, 'All notes'),
    SCOPES.map(([value, text]) => make('option', { value }, tellScope(value, text))),
  );
  const rows = make('div', { class: 'notes' });
  const none = make('p', { class: 'none', hidden: true });
  const notices = make('p', { class: 'warning', hidden: true });
  const more = press('Show more', () => look(last), { id: 'more', hidden: true });
  let last = '';
  let group = '';
  const form = make(
    'form',
    { role: 'search', class: 'search', on: { submit: (event) => (event.preventDefault(), look()) } },
    words,
    make('button', { type: 'submit' }, 'Search'),
    make('label', { for: 'meaning' }, meaning, ' By meaning'),
    scope,
  );
  const element = make(
    'div',
    { class: 'list' },
    make(
      'div',
      { class: 'head' },
      make(current ? 'h2' : 'h1', {}, 'Memory'),
      make('a', { class: 'button', href: '#/memory-new' }, '+ New note'),
    ),
    form,
    notices,
    rows,
    none,
    more,
  );

  async function look(after = '') {
    const sought = words.value.trim();
    const query = new URLSearchParams(sought ? { query: sought, limit: String(FOUND) } : { limit: String(PAGE) });
    if (sought && meaning.checked) query.set('by', 'meaning');
    if (!sought && scope.value) query.set('scope', scope.value);
    if (!sought && after) query.set('after', after);
    try {
      const page = await ask(`notes?${query}`, { signal });
      complain(null);
      if (!after) show(rows);
      if (!after) group = '';
      draw(page.data, sought);
      last = page.data.at(-1)?.path ?? '';
      none.hidden = rows.childElementCount > 0;
      none.textContent = sought ? 'No matches.' : 'There are no notes yet.';
      notices.textContent = page.notices.join(' ');
      notices.hidden = !page.notices.length;
      more.hidden = !page.has_more;
      if (sought) say(`${count(page.data.length, 'match', 'matches')}.`);
    } catch (error) {
      if (!signal.aborted) complain(error);
    }
  }

  function draw(data, sought) {
    let list = rows.lastElementChild?.tagName === 'UL' ? rows.lastElementChild : null;
    for (const each of data) {
      const name = sought ? 'Found' : nameGroup(each);
      if (name !== group || !list) {
        group = name;
        list = make('ul', { class: 'rows', 'aria-label': name });
        rows.append(make('h3', {}, quote(name)), list);
      }
      list.append(composeRow(each, sought));
    }
  }

  function composeRow(each, sought) {
    return make(
      'li',
      {},
      make(
        'a',
        { href: linkToNote(each.path), class: 'title', 'aria-current': each.path === current ? 'page' : null },
        quote(sought ? each.path : shorten(each)),
      ),
      make('span', { class: 'facts snippet' }, quote((sought ? each.text : each.first_words).slice(0, 200))),
      each.updated
        ? make(
            'span',
            { class: 'facts' },
            tellMoment(each.updated),
            each.origins.length ? ` · from ${count(each.origins.length, 'conversation')}` : '',
          )
        : null,
    );
  }
  return { element, look };
}

function tellScope(value, text) {
  return value === 'user' ? 'About you' : `${text}s`;
}

function nameGroup({ scope, scope_name: name }) {
  if (scope === 'user') return 'About you';
  return `${scope === 'project' ? 'Project' : 'Tag'} ${name}`;
}

// The path within its group.
function shorten({ path, scope }) {
  return scope === 'user' ? path : path.split('/').slice(2).join('/');
}
