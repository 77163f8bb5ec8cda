// One note: shown, edited and deleted. Two editors of a note do not overwrite each other.
import { complain, make, press, quote, say, show } from './elements.js';
import { linkToTalk } from './links.js';
import { create, locate } from './memory-new.js';
import { ask, recall, Refusal, remember } from './service.js';
import { composeText } from './texts.js';
import { tellMoment } from './words.js';

export async function showNote(pane, signal, path, onChange) {
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
