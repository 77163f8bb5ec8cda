// System prompt and skills of a new conversation.
import { make, quote, show } from './elements.js';
import { ask, recall, Refusal, remember } from './service.js';
import { count } from './words.js';

const MANY = 8; // skills from which on the list can be searched
let listed = null;
document.addEventListener('key', () => (listed = null));

// Skills that the daemon has found; none if it offers no skills.
function readSkills() {
  listed ??= ask('skills').then(
    ({ data }) => data.sort((one, other) => Boolean(one.problem) - Boolean(other.problem)),
    (error) => {
      listed = null;
      if (error instanceof Refusal && [404, 405].includes(error.status)) return [];
      throw error;
    },
  );
  return listed;
}

// Fields of the instructions; both survive a reload until they are sent.
export function composeInstructions() {
  let chosen = recallNames();
  const title = make('span', {});
  const system = make('textarea', {
    id: 'system',
    rows: 3,
    dir: 'auto',
    placeholder: 'For example: answer in one sentence.',
    on: { input: keep },
  });
  system.value = recall('draft-system');
  const none = make('p', { class: 'facts' }, 'Loading…');
  const search = make('input', {
    type: 'search',
    id: 'skill',
    'aria-label': 'Search skills',
    placeholder: 'Search skills',
    autocomplete: 'off',
    hidden: true,
    on: { input: filter },
  });
  const list = make('ul', {});
  const skills = make('fieldset', { class: 'skills' }, make('legend', {}, 'Skills'), search, list, none);
  const element = make(
    'details',
    { class: 'system', on: { toggle: () => element.open && fill() } },
    make('summary', {}, title),
    make('label', { for: 'system' }, 'Instructions for the model', system),
    skills,
  );

  function keep() {
    remember('draft-system', system.value);
    remember('draft-skills', chosen.length ? JSON.stringify(chosen) : '');
    title.textContent = `System prompt and skills${chosen.length ? ` · ${count(chosen.length, 'skill')}` : ''}`;
  }
  async function fill() {
    try {
      const found = await readSkills();
      chosen = chosen.filter((name) => found.some((each) => each.name === name && !each.problem));
      keep();
      show(list, found.map(composeRow));
      search.hidden = found.length < MANY;
      none.textContent = found.length ? '' : 'The daemon has found no skills.';
    } catch (error) {
      none.textContent = error.message;
    }
    none.hidden = !none.textContent;
  }
  function composeRow({ name, description, source, ensembles, problem }, index) {
    const box = make('input', {
      type: 'checkbox',
      id: `skill-${index}`,
      disabled: Boolean(problem),
      'aria-describedby': `skill-${index}-facts`,
      on: { change: () => pick(name, box.checked) },
    });
    box.checked = chosen.includes(name);
    const facts = [
      source === 'user' ? '' : source === 'project' ? 'of the project' : source,
      ensembles.length ? `adds tools: ${ensembles.join(', ')}` : '',
    ].filter(Boolean);
    const row = make(
      'li',
      { class: problem ? 'off' : null },
      box,
      make(
        'label',
        { for: box.id },
        quote(name, 'b'),
        facts.length ? [' ', make('span', { class: 'facts' }, facts.join(' · '))] : null,
      ),
      make('span', { class: 'facts', id: `skill-${index}-facts` }, quote(problem || description)),
    );
    row.words = `${name} ${description}`.toLowerCase();
    return row;
  }
  function pick(name, isOn) {
    chosen = chosen.filter((each) => each !== name);
    if (isOn) chosen.push(name);
    keep();
  }
  function filter() {
    const words = search.value.toLowerCase().trim().split(/\s+/);
    let number = 0;
    for (const row of list.children) {
      row.hidden = !words.every((word) => row.words.includes(word));
      number += row.hidden ? 0 : 1;
    }
    none.textContent = number ? '' : 'No matches.';
    none.hidden = number > 0;
  }
  keep();
  element.open = Boolean(system.value || chosen.length);
  return {
    element,
    read: () => ({ system: system.value.trim() ? system.value : '', skills: chosen }),
    forget() {
      system.value = '';
      chosen = [];
      keep();
    },
  };
}

function recallNames() {
  try {
    return JSON.parse(recall('draft-skills') || '[]').map(String);
  } catch {
    return [];
  }
}
