// Notes: listed by scope, searched, and edited beside the list.
import { complain, loadStyle, make, press, quote, say, show } from './elements.js';
import { linkToTalk } from './links.js';
import { ask, recall, Refusal, remember } from './service.js';
import { tellShown } from './shell.js';
import { composeText } from './texts.js';
import { count, tellMoment } from './words.js';

const PAGE = 200;
const FOUND = 50;
const SCOPES = [
  ['user', 'You'],
  ['project', 'Project'],
  ['tag', 'Tag'],
];

function linkToNote(path) {
  return `#/memory/${encodeURIComponent(path)}`;
}

function locate(path) {
  return `notes/${path.split('/').map(encodeURIComponent).join('/')}`;
}

export function showNewNote(main, signal) {
  return showMemory(main, signal, '', true);
}

export async function showMemory(main, signal, path = '', isNew = false) {
  loadStyle('memory.css');
  const list = composeList(path, signal);
  const pane = make('section', { class: 'note', 'aria-label': 'Note' });
  const frame = make('div', { class: `memory ${path || isNew ? 'open' : ''}`.trim() }, list.element, pane);
  show(main, frame);
  if (isNew) showNew(pane, signal);
  else if (path) await showNote(pane, signal, path, list.look);
  else
    show(
      pane,
      make(
        'p',
        { class: 'none' },
        'Choose a note, or write one. Models read and write these notes with the tools “memory”.',
      ),
    );
  tellShown();
  await list.look();
}

// --- the list ---------------------------------------------------------------------------------

function composeList(current, signal) {
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

// --- one note ---------------------------------------------------------------------------------

async function showNote(pane, signal, path, onChange) {
  let note;
  try {
    note = await ask(locate(path), { signal });
  } catch (error) {
    if (!(error instanceof Refusal && error.status === 404)) throw error;
    show(pane, composeHead(path), make('p', { class: 'none' }, 'This note does not exist; it may have been deleted.'));
    return;
  }
  const body = make('div', {});
  const origins = make('div', {});
  const edit = press('Edit', () => showEditor(), { id: 'edit', class: 'main' });
  const remove = press('Delete', () => askToDelete(), { id: 'delete', class: 'danger' });
  const actions = make('div', { class: 'actions' }, edit, remove);
  show(pane, composeHead(path, actions), origins, body);
  showText();
  const draft = readDraft(path);
  if (draft) showEditor(draft.text, draft.version);

  function adopt(told) {
    note = told;
    remember(`note ${path}`, '');
    showText();
    onChange();
  }
  function showText() {
    actions.hidden = false;
    show(origins, composeOrigins(note, signal));
    show(
      body,
      composeText(note.text, 'assistant'),
      note.text ? null : make('p', { class: 'none' }, 'This note is empty.'),
    );
  }

  // A draft replaces only the version on which it is based, also after a reload.
  function showEditor(draft = note.text, version = note.version) {
    actions.hidden = true;
    const field = make('textarea', {
      id: 'text',
      rows: 16,
      dir: 'auto',
      'aria-label': 'Text of the note, in Markdown',
      on: { input: () => remember(`note ${path}`, JSON.stringify({ version, text: field.value })) },
    });
    field.value = draft;
    const conflict = make('div', { class: 'conflict', role: 'alert', hidden: true });
    const store = async (known) => {
      try {
        complain(null);
        adopt(
          await ask(locate(path), {
            method: 'PUT',
            body: { text: field.value },
            headers: { 'if-match': `"${known}"` },
          }),
        );
        say('Saved.');
        edit.focus();
      } catch (error) {
        if (error instanceof Refusal && error.status === 412) await compare();
        else complain(error);
      }
    };
    // Another editor, or a model, was faster: show both texts, and let the person choose.
    async function compare() {
      const theirs = await ask(locate(path), { signal }).catch(() => null);
      conflict.hidden = false;
      show(
        conflict,
        make('h2', {}, theirs ? 'This note has changed' : 'This note was deleted'),
        theirs ? make('div', { class: 'theirs' }, composeText(theirs.text)) : null,
        make(
          'div',
          { class: 'actions' },
          theirs ? press('Use the stored text', () => adopt(theirs), { id: 'use-stored' }) : null,
          theirs
            ? press('Replace it by mine', () => store(theirs.version), { id: 'replace' })
            : press('Store mine again', () => create(path, field.value), { id: 'replace' }),
        ),
      );
    }
    show(
      body,
      make(
        'form',
        { class: 'editing', on: { submit: (event) => (event.preventDefault(), store(version)) } },
        field,
        conflict,
        make(
          'div',
          { class: 'actions' },
          make('button', { type: 'submit', class: 'main', id: 'save' }, 'Save'),
          press('Cancel', () => (remember(`note ${path}`, ''), showText(), edit.focus()), { id: 'cancel' }),
        ),
      ),
    );
    field.focus();
  }

  function askToDelete() {
    actions.hidden = true;
    show(
      body,
      make('p', {}, 'Delete this note? Models no longer remember it.'),
      make(
        'div',
        { class: 'actions' },
        press('Delete', async () => {
          try {
            await ask(locate(path), { method: 'DELETE', headers: { 'if-match': `"${note.version}"` } });
            say('Deleted.');
            location.hash = '#/memory';
          } catch (error) {
            if (error instanceof Refusal && error.status === 412) adopt(await ask(locate(path), { signal }));
            complain(error);
          }
        }, { class: 'danger', id: 'delete-now' }),
        press('Cancel', () => (showText(), remove.focus())),
      ),
      composeText(note.text, 'assistant'),
    );
    body.querySelector('button').focus();
  }
}

function readDraft(path) {
  try {
    return JSON.parse(recall(`note ${path}`));
  } catch {
    return null;
  }
}

function composeHead(path, actions) {
  return make(
    'div',
    { class: 'head' },
    make('div', {}, make('a', { class: 'back', href: '#/memory' }, '← All notes'), make('h1', {}, quote(path))),
    actions,
  );
}

// Where a note comes from: the conversations, each with the turn that was being answered.
function composeOrigins({ origins, created, updated }, signal) {
  const facts = [
    created ? ['Written ', tellMoment(created)] : null,
    updated && updated !== created ? [' · changed ', tellMoment(updated)] : null,
  ];
  const places = origins.toReversed().map(({ conversation, turn, time }) => {
    const link = make('a', { href: linkToTalk(conversation) }, quote(conversation));
    ask(`conversations/${encodeURIComponent(conversation)}?limit=1`, { signal })
      .then(({ metadata }) => metadata.name && show(link, quote(metadata.name)))
      .catch(() => !signal.aborted && link.replaceWith(make('span', {}, quote(conversation), ' (not stored here)')));
    return make('li', {}, link, turn ? ` · turn ${turn}` : '', ' · ', tellMoment(time));
  });
  return make(
    'div',
    { class: 'origins' },
    make('p', { class: 'facts' }, facts.filter(Boolean)),
    places.length
      ? make('details', { open: places.length < 4 }, make('summary', {}, 'Remembered from'), make('ul', {}, places))
      : make('p', { class: 'facts' }, 'Written by a person.'),
  );
}

// --- a new note -------------------------------------------------------------------------------

async function create(path, text) {
  try {
    complain(null);
    const note = await ask(locate(path), { method: 'PUT', body: { text }, headers: { 'if-none-match': '*' } });
    remember(`note ${path}`, '');
    say('Created.');
    if (location.hash === linkToNote(note.path)) dispatchEvent(new HashChangeEvent('hashchange'));
    else location.hash = linkToNote(note.path);
  } catch (error) {
    complain(error);
  }
}

function showNew(pane) {
  const scope = make(
    'select',
    { id: 'new-scope', on: { change: () => follow() } },
    SCOPES.map(([value, text]) => make('option', { value }, text)),
  );
  const owner = make('input', { id: 'new-owner', autocomplete: 'off', pattern: '[^\\/]+' });
  const name = make('input', { id: 'new-name', autocomplete: 'off', required: true, placeholder: 'tea.md' });
  const text = make('textarea', { id: 'text', rows: 12, dir: 'auto', required: true });
  const ownerLabel = make('label', { for: 'new-owner', hidden: true }, 'Name of the project or tag', owner);
  function follow() {
    ownerLabel.hidden = scope.value === 'user';
    owner.required = !ownerLabel.hidden;
  }
  const submit = (event) => {
    event.preventDefault();
    const folder = { user: '', project: `projects/${owner.value.trim()}/`, tag: `tags/${owner.value.trim()}/` }[
      scope.value
    ];
    create(`${folder}${name.value.trim()}`, text.value);
  };
  show(
    pane,
    make(
      'div',
      { class: 'head' },
      make('div', {}, make('a', { class: 'back', href: '#/memory' }, '← All notes'), make('h1', {}, 'New note')),
    ),
    make(
      'form',
      { class: 'editing', on: { submit } },
      make('label', { for: 'new-scope' }, 'About', scope),
      ownerLabel,
      make('label', { for: 'new-name' }, 'Name', name),
      make('label', { for: 'text' }, 'Text, in Markdown', text),
      make(
        'div',
        { class: 'actions' },
        make('button', { type: 'submit', class: 'main', id: 'save' }, 'Create'),
        make('a', { class: 'button', href: '#/memory' }, 'Cancel'),
      ),
    ),
  );
}
