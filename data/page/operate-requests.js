// The last hundred requests, with their losses and attempts.
import { complain, make, press, quote, show } from './elements.js';
import { ask } from './service.js';
import { keep, tellShown } from './shell.js';
import { composeCell, composeMark, tellSeconds, tellCents } from './operate-words.js';
import { count, tellMoment } from './words.js';

const PAUSE = 3000;
const GONE = 499;

export async function showRequests(main, signal) {
  const open = new Set();
  let data = [];
  const words = make('input', {
    type: 'search',
    id: 'words',
    placeholder: 'Key, model, target, error or id',
    'aria-label': 'Search',
    on: { input: () => draw() },
  });
  const failed = make('input', { type: 'checkbox', id: 'failed', on: { change: () => draw() } });
  const lossy = make('input', { type: 'checkbox', id: 'lossy', on: { change: () => draw() } });
  const facts = make('p', { class: 'facts' });
  const place = make('div', { class: 'scroll' });
  show(
    main,
    make(
      'div',
      { class: 'head' },
      make('h1', {}, 'Requests'),
      make(
        'div',
        { class: 'search' },
        words,
        make('label', { for: 'failed' }, failed, 'Failed'),
        make('label', { for: 'lossy' }, lossy, 'With losses'),
      ),
    ),
    facts,
    place,
  );
  tellShown();
  function draw() {
    const rows = data.filter(
      (row) => (!failed.checked || hasFailed(row)) && (!lossy.checked || countLosses(row)) && matches(row, words.value),
    );
    facts.textContent = `${count(rows.length, 'request')} of the last ${data.length}. ${open.size ? 'New ones are not shown while one is open.' : ''}`;
    show(
      place,
      rows.length
        ? composeRows(rows, open, draw)
        : make('p', { class: 'none' }, data.length ? 'No request matches.' : 'There are no requests yet.'),
    );
  }
  let shown = '';
  await keep(async () => {
    if (open.size && data.length) return;
    const answer = await ask('operate/requests', { signal });
    complain(null);
    const next = JSON.stringify(answer);
    if (next === shown) return;
    shown = next;
    data = answer.data;
    draw();
  }, signal, PAUSE);
}

function hasFailed(row) {
  return row.status >= 400 || row.error !== '';
}

function countLosses(row) {
  return row.losses.length + row.further_losses;
}

function matches(row, words) {
  const text = [
    row.id,
    row.key,
    row.model,
    row.target,
    row.error,
    row.detail,
    row.status,
    row.path,
    ...row.attempts.map((each) => `${each.target} ${each.error}`),
    ...row.losses.map((each) => each.path),
  ]
    .join(' ')
    .toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function composeStatus(row) {
  if (row.error === 'client-gone' || row.status === GONE) return composeMark('waiting', '–', 'client gone');
  if (row.status >= 400) return composeMark('failed', '!', String(row.status));
  return row.error
    ? composeMark('failed', '!', `broke off (${row.status})`)
    : composeMark('ended', '✓', String(row.status));
}

function tellTokens(row) {
  if (row.input_tokens === null && row.output_tokens === null) return '';
  const tell = (number) => (number === null ? '?' : number.toLocaleString());
  return `${tell(row.input_tokens)} → ${row.estimated ? '≈ ' : ''}${tell(row.output_tokens)}`;
}

const COLUMNS = [
  { label: 'Time', cell: (row) => tellMoment(row.time) },
  { label: 'Key', cell: (row) => (row.key ? quote(row.key) : '') },
  { label: 'Model', cell: (row) => quote(row.model) },
  { label: 'Target', cell: (row) => (row.target && row.target !== row.model ? quote(row.target) : '') },
  { label: 'Status', cell: composeStatus },
  { label: 'Time taken', isNumber: true, cell: (row) => tellSeconds(row.seconds) },
  { label: 'Tokens', isNumber: true, cell: tellTokens },
  { label: 'Cost', isNumber: true, cell: (row) => (row.cents === null ? '' : tellCents(Number(row.cents))) },
  { label: 'Tries', isNumber: true, cell: (row) => (row.attempts.length > 1 ? String(row.attempts.length) : '') },
  { label: 'Losses', isNumber: true, cell: (row) => (countLosses(row) ? String(countLosses(row)) : '') },
];

function composeRows(rows, open, redraw) {
  const body = rows.flatMap((row) => {
    const isOpen = open.has(row.id);
    const toggle = press(isOpen ? 'Hide' : 'Details', () => {
      if (isOpen) open.delete(row.id);
      else open.add(row.id);
      redraw();
    }, { id: `show-${row.id}`, class: 'quiet', 'aria-expanded': String(isOpen), 'aria-label': `Details of ${row.id}` });
    return [
      make(
        'tr',
        { id: row.id, class: isOpen ? 'open' : null },
        COLUMNS.map((each, index) => composeCell(each, row, index)),
        make('td', {}, toggle),
      ),
      isOpen
        ? make('tr', { class: 'inner' }, make('td', { colspan: String(COLUMNS.length + 1) }, composeDetails(row)))
        : null,
    ];
  });
  return make(
    'table',
    { class: 'sheet cards requests', 'aria-label': 'Requests' },
    make(
      'thead',
      {},
      make(
        'tr',
        {},
        COLUMNS.map((each) => make('th', { scope: 'col', class: each.isNumber ? 'number' : null }, each.label)),
        make('td', {}),
      ),
    ),
    make('tbody', {}, body),
  );
}

function composeDetails(row) {
  const facts = [
    ['Id', make('code', {}, quote(row.id))],
    ['Key', row.key ? quote(row.key) : ''],
    ['Model', quote(row.model)],
    ['Client', row.client],
    ['Path', quote(row.path)],
    [
      'Protocol',
      row.protocol + (row.way ? `, ${row.way === 'translate' ? 'translated' : 'passed through'}` : ', not sent'),
    ],
    [
      'First byte',
      row.first_seconds === null ? '' : tellSeconds(row.first_seconds) + (row.streamed ? ' (stream)' : ''),
    ],
    ['Cache', row.cache],
    ['Cost', row.cents === null ? 'no price, or none' : `${row.cents} ¢`],
    ['Error', row.error],
  ].filter(([, value]) => value);
  return [
    make(
      'dl',
      { class: 'facts-list' },
      facts.map(([label, value]) => make('div', {}, make('dt', {}, label), make('dd', {}, value))),
    ),
    row.detail ? make('p', { class: 'warning' }, quote(row.detail)) : null,
    row.attempts.length
      ? [
          make('h3', {}, 'Attempts'),
          make(
            'ol',
            {},
            row.attempts.map((each) =>
              make(
                'li',
                {},
                quote(each.target),
                each.error ? [': ', quote(each.error)] : ': answered',
                each.seconds ? ` · ${tellSeconds(each.seconds)}` : ' · skipped',
                each.may_be_billed ? ' · may be billed' : '',
              ),
            ),
          ),
        ]
      : null,
    row.losses.length
      ? [
          make('h3', {}, 'Losses'),
          make(
            'ul',
            {},
            row.losses.map((each) =>
              make(
                'li',
                {},
                make('strong', {}, each.kind),
                ' ',
                make('code', {}, quote(each.path)),
                ': ',
                quote(each.reason),
              ),
            ),
          ),
        ]
      : null,
    row.further_losses
      ? make(
          'p',
          { class: 'facts' },
          `${count(row.further_losses, 'more loss', 'more losses')}, routine, repeated or too many to list.`,
        )
      : null,
  ];
}
