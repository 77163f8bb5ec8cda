// Notes: listed by scope, searched, and edited beside the list.
import { loadStyle, make, show } from './elements.js';
import { composeList } from './memory-list.js';
import { showNew } from './memory-new.js';
import { showNote } from './memory-note.js';
import { tellShown } from './shell.js';

export function showNewNote(main, signal) {
  return showMemory(main, signal, '', true);
}

export async function showMemory(main, signal, path = '', isNew = false) {
  loadStyle('memory.css');
  const list = composeList(path, signal);
  const pane = make('section', { class: 'note', 'aria-label': 'Note' });
  const frame = make('div', { class: `memory ${path || isNew ? 'open' : ''}`.trim() }, list.element, pane);
  show(main, frame);
  if (isNew) showNew(pane);
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
