// Words, tables and marks of the gateway's page.
import { make } from './elements.js';
import { Refusal } from './service.js';
import { tellMoney } from './words.js';

export function tellSeconds(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (!seconds) return '0';
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  return seconds < 120 ? `${Number(seconds.toPrecision(3))} s` : `${Math.round(seconds / 60)} min`;
}

// Money, zero included: with a budget, 0 is an amount.
export function tellCents(cents) {
  return cents ? tellMoney(cents) : '0 ¢';
}

export function tellRate(rate) {
  return Number(rate.toPrecision(3)).toLocaleString();
}

export function tellClock(moment) {
  return new Date(moment).toLocaleTimeString();
}

export function tellMinute(moment) {
  return new Date(moment).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}

export function tellShare(part, whole) {
  return whole ? `${Number(((100 * part) / whole).toPrecision(2))} %` : '–';
}

// A mark with a sign and words, so that it does not depend on its color.
export function composeMark(tone, sign, words) {
  return make('span', { class: `mark ${tone}` }, make('span', { 'aria-hidden': 'true' }, `${sign} `), words);
}

// A table whose rows become cards where it is narrow. Columns have `label` and `cell`, which
// returns the content for a row; `isNumber` aligns them.
export function composeTable(label, columns, rows, { rowId = null } = {}) {
  return make(
    'table',
    { class: 'sheet cards', 'aria-label': label },
    make(
      'thead',
      {},
      make(
        'tr',
        {},
        columns.map((each) => make('th', { scope: 'col', class: each.isNumber ? 'number' : null }, each.label)),
      ),
    ),
    make(
      'tbody',
      {},
      rows.map((row) =>
        make(
          'tr',
          { id: rowId?.(row) },
          columns.map((each, index) => composeCell(each, row, index)),
        ),
      ),
    ),
  );
}

export function composeCell(column, row, index) {
  const content = [column.cell(row)].flat(Infinity);
  const isEmpty = content.every((each) => each === '' || each === null || each === undefined || each === false);
  return make(
    index ? 'td' : 'th',
    {
      scope: index ? null : 'row',
      class: [column.isNumber ? 'number' : '', isEmpty ? 'empty' : ''].filter(Boolean).join(' ') || null,
    },
    make('span', { class: 'label', 'aria-hidden': 'true' }, column.label),
    make('span', { class: 'value' }, content),
  );
}

// Return whether a path is missing here: the keys of other authorizers are not managed here.
export function isMissing(error) {
  return error instanceof Refusal && error.status === 404;
}
