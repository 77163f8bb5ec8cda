// Spending by key, model and day.
import { complain, make, quote, show } from './elements.js';
import { linkToSpending } from './links.js';
import { ask } from './service.js';
import { keep, tellShown } from './shell.js';
import { composeBar, composeColumnChart } from './charts.js';
import { composeActions, composeKeyState, composeToday, tellLimits } from './operate-keys.js';
import { composeTable, isMissing, tellCents } from './operate-words.js';
import { count } from './words.js';

const PAUSE = 20_000;
const SHOWN = 5; // series of a chart; the others are one
const PERIODS = [7, 30, 90];
let period = 30;

const tellDay = (day) =>
  new Date(`${day}T12:00:00Z`).toLocaleDateString([], { day: 'numeric', month: 'short', timeZone: 'UTC' });

export function showSpending(main, signal) {
  return showReport(main, signal, null);
}

export function showKeySpending(main, signal, id) {
  return showReport(main, signal, id);
}

async function showReport(main, signal, id) {
  const select = make(
    'select',
    { id: 'period', on: { change: () => ((period = Number(select.value)), perform()) } },
    PERIODS.map((each) => make('option', { value: String(each), selected: each === period }, `${each} days`)),
  );
  const heading = make('h1', {}, id ? 'Spending of a key' : 'Spending');
  const about = make('div', { class: 'about' });
  const facts = make('p', { class: 'facts' });
  const common = { formatX: tellDay, formatY: tellCents, headX: 'Day (UTC)' };
  const byKey = composeColumnChart({ ...common, id: 'by-key', title: 'By key and day' });
  const byModel = composeColumnChart({ ...common, id: 'by-model', title: 'By model and day' });
  const keys = make('section', {});
  const models = make('section', {});
  show(
    main,
    make('div', { class: 'head' }, heading, make('label', { for: 'period' }, 'Period', select)),
    about,
    facts,
    make('div', { class: 'charts' }, id ? null : byKey.element, byModel.element),
    id ? null : keys,
    models,
  );
  tellShown();
  let shown = '';
  async function look() {
    const chosen = id ? `&key=${encodeURIComponent(id)}` : '';
    let report;
    let listed;
    try {
      [report, listed] = await Promise.all([
        ask(`operate/spending?days=${period}${chosen}`, { signal }),
        id ? ask('operate/keys', { signal }) : null,
      ]);
    } catch (error) {
      if (!isMissing(error)) throw error;
      show(facts, 'The spending of this gateway’s authorizer is not known here, but only that of “keys”.');
      return;
    }
    complain(null);
    const next = JSON.stringify([report, listed]);
    if (next === shown) return;
    shown = next;
    const key = listed?.data.find((each) => each.id === id);
    if (key) {
      show(heading, 'Spending of ', quote(key.name));
      document.title = `Spending of ${key.name} · vibe`;
      show(about, composeAbout(key, look));
    } else if (id) {
      show(about, make('p', {}, 'This key is not in the file of keys.'));
    }
    show(facts, tellTotal(report));
    if (!id) byKey.update(...readColumns(report.keys, report, 'key'));
    byModel.update(...readColumns(report.models, report, 'model'));
    show(
      keys,
      composeRows('Keys', report.keys, report, (row) =>
        row.id ? make('a', { href: linkToSpending(row.id) }, quote(row.name)) : row.name,
      ),
    );
    show(
      models,
      composeRows('Models', report.models, report, (row) => quote(row.name)),
    );
  }
  async function perform() {
    shown = '';
    await look().catch(() => {}); // it is tried again soon, and the error is shown
  }
  await keep(look, signal, PAUSE);
}

function composeAbout(key, look) {
  const facts = [
    ['State', composeKeyState(key)],
    ['May use', tellLimits(key)],
    ['Today (UTC)', composeToday(key)],
  ];
  return [
    make(
      'dl',
      { class: 'facts-list' },
      facts.map(([label, value]) => make('div', {}, make('dt', {}, label), make('dd', {}, value))),
    ),
    composeActions(key, look),
  ];
}

function tellTotal({ total, days }) {
  const parts = [
    `${tellCents(Number(total.cents))} in ${days.length} days, ${count(total.requests, 'request')}, ${count(total.input_tokens + total.output_tokens, 'token')}.`,
  ];
  if (total.perhaps_requests || Number(total.perhaps_cents))
    parts.push(
      `${count(total.perhaps_requests, 'request')} may be billed, up to ${tellCents(Number(total.perhaps_cents))}.`,
    );
  if (total.unpriced) parts.push(`${count(total.unpriced, 'request')} without a known price.`);
  return parts.join(' ');
}

// The most expensive rows as series of a chart, and the others as one.
function readColumns(rows, { days }, noun) {
  const paid = rows.filter((row) => Number(row.cents) > 0);
  const first = paid.slice(0, SHOWN);
  const rest = paid.slice(SHOWN);
  const series = first.map((row, index) => ({
    label: row.name,
    tone: `tone-${index + 1}`,
    values: row.days.map(Number),
  }));
  if (rest.length)
    series.push({
      label: `${rest.length} other${rest.length > 1 ? 's' : ''}`,
      tone: 'tone-6',
      values: days.map((_, at) => rest.reduce((sum, row) => sum + Number(row.days[at]), 0)),
    });
  const words = paid.length
    ? `The most by the ${noun} ${paid[0].name}: ${tellCents(Number(paid[0].cents))}.`
    : 'Nothing was spent.';
  return [{ x: days, series }, words];
}

function composeRows(title, rows, { total }, name) {
  const whole = Number(total.cents);
  const columns = [
    { label: title.slice(0, -1), cell: name },
    { label: 'Cost', isNumber: true, cell: (row) => tellCents(Number(row.cents)) },
    { label: 'Share', cell: (row) => composeBar(whole ? Number(row.cents) / whole : 0) },
    { label: 'Requests', isNumber: true, cell: (row) => row.requests.toLocaleString() },
    { label: 'Input tokens', isNumber: true, cell: (row) => row.input_tokens.toLocaleString() },
    { label: 'Output tokens', isNumber: true, cell: (row) => row.output_tokens.toLocaleString() },
    {
      label: 'May be billed',
      isNumber: true,
      cell: (row) =>
        row.perhaps_requests || Number(row.perhaps_cents)
          ? `${row.perhaps_requests}, up to ${tellCents(Number(row.perhaps_cents))}`
          : '',
    },
    { label: 'No price', isNumber: true, cell: (row) => row.unpriced || '' },
  ];
  const id = `${title.toLowerCase()}-title`;
  return [
    make('h2', { id }, title),
    rows.length
      ? make('div', { class: 'scroll' }, composeTable(title, columns, rows))
      : make('p', { class: 'none' }, total.requests ? 'None.' : 'Nothing was spent in this time.'),
  ];
}
