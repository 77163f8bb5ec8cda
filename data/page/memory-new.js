// A new note, and where notes are.
import { complain, make, say, show } from './elements.js';
import { linkToNote } from './links.js';
import { ask, remember } from './service.js';

export const SCOPES = [
  ['user', 'You'],
  ['project', 'Project'],
  ['tag', 'Tag'],
];

export function locate(path) {
  return `notes/${path.split('/').map(encodeURIComponent).join('/')}`;
}

export async function create(path, text) {
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

export function showNew(pane) {
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
