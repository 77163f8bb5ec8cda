// The list of runs: conditions and search, which the daemon answers, and one line for each run.
import { complain, make, press, quote, say, show } from './elements.js';
import { linkToRun } from './links.js';
import { ask } from './service.js';
import { keep, tellShown } from './shell.js';
import { readConditions, writeConditions } from './watch.js';
import {
  count,
  isSame,
  markState,
  nameState,
  tellDuration,
  tellMoment,
  tellMoney,
  tellWork,
  titleOf,
} from './words.js';

const PAGE = 50;
const TYPING = 250;
const STATES = ['working', 'waiting', 'queued', 'due', 'broken_off', 'stopped', 'ended'];
const HOUR = 3600;
const CHOICES = {
  state: [
    ['', 'Any state'],
    ['failed', 'failed'],
    ['succeeded', 'succeeded'],
    ...STATES.map((each) => [each, nameState(each)]),
  ],
  kind: [
    ['', 'Any kind'],
    ['conversation', 'conversations'],
    ['flow', 'flows'],
  ],
  within: [
    ['', 'Any time'],
    [HOUR, 'last hour'],
    [24 * HOUR, 'last 24 hours'],
    [7 * 24 * HOUR, 'last 7 days'],
    [30 * 24 * HOUR, 'last 30 days'],
  ],
  min_cents: [
    ['', 'Any cost'],
    [0.01, 'has a price'],
    [1, '1 ¢ or more'],
    [10, '10 ¢ or more'],
    [100, '$1 or more'],
    [1000, '$10 or more'],
  ],
};
const NAMES = {
  state: 'State',
  kind: 'Kind',
  within: 'Time',
  min_cents: 'Cost',
  model: 'Model',
  tag: 'Label',
  since: 'From',
  until: 'To',
};
const ENDED = { failed: 'true', succeeded: 'false' };

export async function showRuns(main, signal) {
  const runs = new Map();
  const rows = new Map();
  const known = { models: new Set(), tags: new Set() };
  let conditions = readConditions();
  let first = []; // ids on the first page
  let isExpanded = false;
  let hasMore = false;
  let timer = 0;

  const fields = composeFields(conditions, () => (clearTimeout(timer), adopt()), () => {
    clearTimeout(timer);
    timer = setTimeout(adopt, TYPING);
  });
  const list = make('ul', { class: 'rows runs', 'aria-label': 'Runs' });
  const none = make('p', { class: 'none', hidden: true });
  const more = press('Show more', showMore, { hidden: true, id: 'more' });
  show(main, make('div', { class: 'head' }, make('h1', {}, 'Runs')), fields.element, list, none, more);
  tellShown();

  // Apply the fields: as the address, and to the list.
  async function adopt() {
    conditions = fields.read();
    writeConditions(conditions);
    fields.update(conditions);
    runs.clear();
    isExpanded = false;
    const sought = String(conditions);
    try {
      await look();
      if (sought === String(conditions))
        say(hasMore ? `More than ${count(runs.size, 'run')}.` : `${count(runs.size, 'run')} found.`, true);
    } catch (error) {
      if (!signal.aborted) complain(error);
    }
  }

  async function read(after = '') {
    const sought = String(conditions);
    const query = composeQuery(conditions);
    query.set('limit', String(PAGE));
    if (after) query.set('after', after);
    const page = await ask(`runs?${query}`, { signal });
    return sought === String(conditions) ? page : null; // the conditions have changed
  }

  async function look() {
    const page = await read();
    if (!page) return;
    complain(null);
    const ids = page.data.map((run) => run.id);
    // Runs that are no longer there, unless they are on a later page now.
    if (!isExpanded) for (const id of first) if (!ids.includes(id)) runs.delete(id);
    first = ids;
    if (!isExpanded) hasMore = page.has_more;
    place(page.data);
  }

  async function showMore() {
    try {
      isExpanded = true;
      const page = await read(order().at(-1)?.id);
      if (!page) return;
      hasMore = page.has_more;
      place(page.data);
      rows.get(page.data[0]?.id)?.element.querySelector('a').focus({ preventScroll: true });
      say(`${count(runs.size, 'run')} shown.`, true);
    } catch (error) {
      if (!signal.aborted) complain(error);
    }
  }

  function order() {
    const later = (one, other) =>
      Date.parse(other.updated) - Date.parse(one.updated) ||
      compareTexts(other.updated, one.updated) ||
      compareTexts(other.id, one.id);
    return Array.from(runs.values()).sort(later);
  }

  // Show the runs in order; what has not changed stays, with the keyboard focus.
  function place(found) {
    for (const run of found) runs.set(run.id, run);
    const elements = order().map((run) => {
      const row = rows.get(run.id);
      if (row && isSame(row.run, run)) return row.element;
      const element = composeRow(run);
      rows.set(run.id, { run, element });
      return element;
    });
    for (const id of rows.keys()) if (!runs.has(id)) rows.delete(id);
    if (elements.length !== list.children.length || elements.some((each, index) => each !== list.children[index]))
      show(list, elements);
    const isFiltered = String(conditions) !== '';
    none.textContent = isFiltered ? 'No run matches.' : 'There are no runs yet.';
    none.hidden = runs.size > 0;
    more.hidden = !hasMore;
    for (const { model, tags } of found) {
      if (model) known.models.add(model);
      for (const tag of tags) known.tags.add(tag);
    }
    fields.suggest(known);
  }
  await keep(look, signal);
}

const compareTexts = (one, other) => (one < other ? -1 : one > other ? 1 : 0);

// What the daemon is asked: times as moments, and states as it names them.
function composeQuery(conditions) {
  const query = new URLSearchParams();
  for (const [name, value] of conditions) {
    if (name === 'within') {
      const moment = new Date(Date.now() - 1000 * Number(value));
      if (!Number.isNaN(moment.getTime())) query.set('since', moment.toISOString());
    } else if (name === 'state' && ENDED[value]) {
      query.set('state', 'ended');
      query.set('failed', ENDED[value]);
    } else if (name === 'since' || name === 'until') {
      const moment = new Date(value);
      if (!Number.isNaN(moment.getTime())) query.set(name, moment.toISOString());
    } else if (name in NAMES || name === 'query') {
      query.set(name, value);
    }
  }
  return query;
}

function composeFields(conditions, change, type) {
  const query = make('input', {
    type: 'search',
    id: 'query',
    autocomplete: 'off',
    'aria-label': 'Search runs',
    placeholder: 'Search titles, models, labels and ids',
    on: { input: type, search: change },
  });
  const inputs = { query };
  for (const [name, choices] of Object.entries(CHOICES)) {
    inputs[name] = make(
      'select',
      { id: name, on: { change } },
      choices.map(([value, text]) => make('option', { value }, text)),
    );
  }
  for (const name of ['model', 'tag'])
    inputs[name] = make('input', { id: name, list: `${name}s`, autocomplete: 'off', on: { input: type, change } });
  for (const name of ['since', 'until'])
    inputs[name] = make('input', { id: name, type: 'datetime-local', on: { change } });
  const lists = { model: make('datalist', { id: 'models' }), tag: make('datalist', { id: 'tags' }) };
  const label = (name) => make('label', { for: name }, NAMES[name], inputs[name]);
  const number = make('span', { class: 'count', hidden: true });
  const clear = press('Clear', () => {
    for (const input of Object.values(inputs)) input.value = '';
    change();
    query.focus();
  }, { class: 'quiet', id: 'clear', hidden: true });
  const further = make(
    'details',
    { class: 'filters' },
    make('summary', {}, 'Filters ', number),
    make(
      'div',
      { class: 'fields' },
      ['kind', 'model', 'tag', 'within', 'since', 'until', 'min_cents'].map(label),
      Object.values(lists),
    ),
  );
  const element = make(
    'form',
    {
      class: 'conditions',
      role: 'search',
      'aria-label': 'Runs',
      on: { submit: (event) => (event.preventDefault(), change()) },
    },
    query,
    label('state'),
    clear,
    further,
  );

  function read() {
    const found = new URLSearchParams();
    for (const [name, input] of Object.entries(inputs)) {
      const value = input.type === 'datetime-local' ? exportMoment(input.value) : input.value.trim();
      if (value) found.set(name, value);
    }
    return found;
  }
  function update(now) {
    const active = Array.from(now.keys()).filter((name) => !['query', 'state'].includes(name));
    number.textContent = String(active.length);
    number.hidden = !active.length;
    number.setAttribute('aria-label', `${active.length} active`);
    clear.hidden = !String(now);
    return active.length;
  }
  function suggest({ models, tags }) {
    for (const [place, values] of [
      [lists.model, models],
      [lists.tag, tags],
    ]) {
      if (place.children.length !== values.size)
        place.replaceChildren(...Array.from(values, (value) => make('option', { value })));
    }
  }
  for (const [name, input] of Object.entries(inputs))
    input.value = (input.type === 'datetime-local' ? importMoment : String)(conditions.get(name) ?? '');
  for (const [name, input] of Object.entries(inputs)) {
    // A value of a shared address that is not among the choices.
    const value = conditions.get(name);
    if (value && input.tagName === 'SELECT' && input.value !== value) {
      input.append(make('option', { value }, value));
      input.value = value;
    }
  }
  if (update(conditions)) further.open = true;
  return { element, read, update, suggest };
}

// A moment in the address is the same for readers in other time zones; the field shows local time.
function exportMoment(text) {
  const moment = new Date(text);
  return Number.isNaN(moment.getTime()) ? '' : moment.toISOString();
}

function importMoment(text) {
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime())) return '';
  return new Date(moment.getTime() - 60_000 * moment.getTimezoneOffset()).toISOString().slice(0, 16);
}

function composeRow(run) {
  const used = [
    run.model ? quote(run.model) : run.kind,
    run.kind === 'flow' ? count(run.visits, 'visit') : '',
    count(run.answers, 'answer'),
    run.invocations ? count(run.invocations, 'call') : '',
  ].filter(Boolean);
  return make(
    'li',
    {},
    markState(run),
    make(
      'a',
      { href: linkToRun(run.id), id: `run-${run.id}`, class: 'title', title: titleOf(run) },
      quote(titleOf(run)),
    ),
    make('span', { class: 'facts number time' }, tellDuration(tellWork(run))),
    make('span', { class: 'facts number tokens' }, run.tokens ? count(run.tokens, 'token') : ''),
    make('span', { class: 'facts number money' }, tellMoney(run.cents)),
    make('span', { class: 'facts when' }, tellMoment(run.updated)),
    make(
      'span',
      { class: 'facts more' },
      used.flatMap((each, index) => (index ? [' · ', each] : [each])),
      run.tags.map((tag) => make('span', { class: 'tag' }, quote(tag))),
      run.detail ? [' · ', quote(run.detail)] : null,
    ),
  );
}
