// Targets of each model, and their circuits.
import { complain, make, quote, show } from './elements.js';
import { ask } from './service.js';
import { keep, tellShown } from './shell.js';
import { composeMark, composeTable } from './operate-words.js';
import { count, tellMoment } from './words.js';

const PAUSE = 3000;

export async function showRouting(main, signal) {
  const place = make('div', {});
  show(main, make('h1', {}, 'Routing'), place);
  tellShown();
  let shown = '';
  await keep(async () => {
    const { data } = await ask('operate/models', { signal });
    complain(null);
    const next = JSON.stringify(data) + (data.some(isShut) ? Date.now() : '');
    if (next === shown) return;
    shown = next;
    show(place, data.length ? data.map(composeModel) : composeNone());
  }, signal, PAUSE);
}

function isShut(model) {
  return model.targets.some((each) => each.open_until || each.held_until);
}

function composeNone() {
  return make(
    'p',
    { class: 'hint' },
    'This gateway has no routing tables: each name leads to one model, without fallbacks and circuits. To define some, write [models] tables in the gateway’s file.',
  );
}

function composeModel(model, index) {
  return make(
    'section',
    { class: 'model', 'aria-labelledby': `model-${index}` },
    make('h2', { id: `model-${index}` }, quote(model.name)),
    make('div', { class: 'scroll' }, composeTable(`Targets of ${model.name}`, COLUMNS, model.targets)),
  );
}

const COLUMNS = [
  { label: 'Target', cell: (row) => quote(row.target) },
  {
    label: 'Order',
    cell: (row) => (row.level ? `fallback ${row.level}` : row.weight > 1 ? `first, weight ${row.weight}` : 'first'),
  },
  { label: 'State', cell: composeState },
  { label: 'Why', cell: composeReason },
  {
    label: 'In progress',
    isNumber: true,
    cell: (row) => [
      `${row.busy}${row.concurrency ? ` of ${row.concurrency * Math.max(1, row.workers)}` : ''}`,
      row.waiting ? `, ${row.waiting} queued` : '',
    ],
  },
];

function composeState(row) {
  const among = row.workers > 1 && row.open_workers ? ` in ${row.open_workers} of ${row.workers} processes` : '';
  if (row.circuit === 'open')
    return [composeMark('failed', '!', 'circuit open'), among, ' until ', tellMoment(row.open_until)];
  if (row.circuit === 'probing')
    return [composeMark('waiting', '?', 'circuit half-open'), `${among}: one request tests it`];
  if (row.held_until) return [composeMark('waiting', '–', 'rate limited'), ' until ', tellMoment(row.held_until)];
  return composeMark('ended', '✓', row.circuit === 'none' ? 'available' : 'circuit closed');
}

function composeReason(row) {
  let failures = '';
  if (row.open_workers) failures = `${count(row.limit, 'failure')} opened it. `;
  else if (row.limit && row.failures)
    failures = `${count(row.failures, 'recent failure')}; ${row.limit} in one process open the circuit. `;
  const last = row.failure ? ['Last failure: ', quote(row.failure), ', ', tellMoment(row.failed_at), '.'] : '';
  return [failures, last];
}
