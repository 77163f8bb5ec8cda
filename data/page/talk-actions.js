// What can be done with a whole conversation: rename, fork, compare, summarize, export.
import { askUser, make, press, save, say } from './elements.js';
import { askToCompact } from './compaction.js';
import { linkToComparison } from './links.js';
import { ask, fetchDocument } from './service.js';

const FORMS = [['markdown', 'Markdown'], ['json', 'JSON'], ['html', 'HTML']];

// `attempt` reports the errors of a function; `look` shows what it has changed. `compact` starts the run that
// summarizes.
export function composeTalkActions({ id, path, attempt, look, fork, compact, readName }) {
  const form = make(
    'select',
    { id: 'form', 'aria-label': 'Export format' },
    FORMS.map(([word, text]) => make('option', { value: word }, text)),
  );
  const rename = () =>
    attempt(async () => {
      const answer = await askUser(
        'Rename the conversation',
        [['name', 'Name', { value: readName(), dir: 'auto' }]],
        'Rename',
      );
      if (!answer) return;
      await ask(path, { method: 'PATCH', body: { name: answer.name } });
      await look();
      say('Renamed.');
    });
  const compare = () =>
    attempt(async () => {
      const { chooseOther } = await import('./talk-compare.js');
      const other = await chooseOther(id);
      if (other) location.hash = linkToComparison(id, other);
    });
  const summarize = () =>
    attempt(async () => {
      if (!(await askToCompact(path))) return;
      await compact();
    });
  const write = () =>
    attempt(async () => {
      const written = await fetchDocument(`${path}/export?format=${form.value}`);
      save(written.blob, written.name);
      say(`Saved as ${written.name}.`);
    });
  return make(
    'div',
    { class: 'actions' },
    press('Rename', rename, { id: 'rename' }),
    press('Fork', fork, { id: 'fork' }),
    press('Compare', compare, { id: 'compare' }),
    press('Compact', summarize, { id: 'compact', hidden: true }),
    make('span', { class: 'joined' }, press('Export as', write, { id: 'export' }), form),
  );
}
