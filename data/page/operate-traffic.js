// Traffic of the last hour: rates, latencies and errors by target.
import { complain, make, quote, show } from './elements.js';
import { ask } from './service.js';
import { keep, tellShown } from './shell.js';
import { composeLineChart } from './charts.js';
import { composeTable, tellClock, tellMinute, tellRate, tellSeconds, tellShare } from './operate-words.js';
import { count } from './words.js';

const PAUSE = 5000;

export async function showTraffic(main, signal) {
  const scope = make('p', { class: 'facts' });
  const tiles = make('dl', { class: 'tiles', 'aria-label': 'The last five minutes' });
  const common = { formatX: tellMinute, headX: 'Time' };
  const rate = composeLineChart({ ...common, id: 'rate', title: 'Requests a second', formatY: tellRate });
  const latency = composeLineChart({
    ...common,
    id: 'latency',
    title: 'Time to the whole answer',
    formatY: tellSeconds,
  });
  const first = composeLineChart({
    ...common,
    id: 'first',
    title: 'Time to the first byte of streams',
    formatY: tellSeconds,
  });
  const targets = make('section', { 'aria-labelledby': 'targets-title' });
  show(
    main,
    make('div', { class: 'head' }, make('h1', {}, 'Traffic'), scope),
    tiles,
    make('div', { class: 'charts' }, rate.element, latency.element, first.element),
    targets,
  );
  tellShown();
  let shown = '';
  await keep(async () => {
    const traffic = await ask('operate/traffic', { signal });
    complain(null);
    scope.textContent = tellScope(traffic);
    show(tiles, composeTiles(traffic));
    const start = Date.parse(traffic.start);
    const x = traffic.requests.map((_, index) => start + 1000 * traffic.bucket_seconds * index);
    rate.update(...readRates(traffic, x));
    latency.update(...readQuantiles(traffic.latency, x, ['median', 'p95', 'p99']));
    first.update(...readQuantiles(traffic.first_byte, x, ['median', 'p95']));
    const next = JSON.stringify(traffic.targets);
    if (next !== shown) show(targets, composeTargets(traffic.targets));
    shown = next;
  }, signal, PAUSE);
}

function tellScope(traffic) {
  const processes = traffic.workers === 1 ? 'This process' : `All ${traffic.workers} processes`;
  return `${processes}, counted since ${tellClock(traffic.counted_since)}, in steps of ${traffic.bucket_seconds} seconds.`;
}

function composeTiles({ recent, busy, waiting }) {
  const { latency, first_byte: first } = recent;
  return [
    ['Requests a second', tellRate(recent.requests / recent.seconds)],
    ['Failed', tellShare(recent.failed, recent.requests), recent.failed ? 'failed' : ''],
    ['Median', tellSeconds(latency?.median)],
    ['95th percentile', tellSeconds(latency?.p95)],
    ['99th percentile', tellSeconds(latency?.p99)],
    ['First byte of streams', tellSeconds(first?.median)],
    ['In progress', waiting ? `${busy}, ${waiting} queued` : String(busy)],
  ].map(([label, value, tone]) => make('div', { class: tone }, make('dt', {}, label), make('dd', {}, value)));
}

function readRates({ requests, failed, bucket_seconds: seconds, recent }, x) {
  const rates = requests.map((each) => each / seconds);
  const most = Math.max(...rates);
  const words = most
    ? `${tellRate(recent.requests / recent.seconds)} a second in the last five minutes; most ${tellRate(most)} at ${tellClock(x[rates.indexOf(most)])}. ${count(
        failed.reduce((sum, each) => sum + each, 0),
        'request',
      )} of the hour failed.`
    : recent.requests
      ? 'The first requests are in the present step, which is not in the chart yet.'
      : 'No requests in the last hour.';
  const series = [
    { label: 'all', tone: 'tone-1', values: rates },
    { label: 'failed', tone: 'bad dashed', values: failed.map((each) => each / seconds) },
  ];
  return [{ x, series }, words];
}

const NAMES = { median: 'median', p95: '95th percentile', p99: '99th percentile' };
const TONES = { median: 'tone-1', p95: 'tone-2 dashed', p99: 'tone-3 dotted' };

function readQuantiles(quantiles, x, names) {
  const last = quantiles.median.findLastIndex((each) => each !== null);
  const words =
    last < 0
      ? 'None in the last hour.'
      : `At ${tellClock(x[last])}, ${names.map((name) => `${NAMES[name]} ${tellSeconds(quantiles[name][last])}`).join(', ')}.`;
  return [
    { x, series: names.map((name) => ({ label: NAMES[name], tone: TONES[name], values: quantiles[name] })) },
    words,
  ];
}

function composeTargets(targets) {
  const head = make('h2', { id: 'targets-title' }, 'Errors by target, last hour');
  if (!targets.length) return [head, make('p', { class: 'none' }, 'No requests in the last hour.')];
  const columns = [
    { label: 'Target', cell: (row) => (row.target ? quote(row.target) : 'none: refused, cached or only retrieved') },
    { label: 'Requests', isNumber: true, cell: (row) => row.requests.toLocaleString() },
    {
      label: 'Failed',
      isNumber: true,
      cell: (row) =>
        row.failed
          ? `${row.failed.toLocaleString()} (${tellShare(row.failed, Math.max(row.requests, row.failed))})`
          : '0',
    },
    {
      label: 'Errors',
      cell: (row) =>
        make(
          'ul',
          { class: 'plain' },
          row.errors.map((each) => make('li', {}, quote(each.kind), ` × ${each.count.toLocaleString()}`)),
        ),
    },
    { label: 'Client gone', isNumber: true, cell: (row) => row.gone || '' },
    { label: 'Median', isNumber: true, cell: (row) => tellSeconds(row.latency?.median) },
    { label: '95th', isNumber: true, cell: (row) => tellSeconds(row.latency?.p95) },
    { label: '99th', isNumber: true, cell: (row) => tellSeconds(row.latency?.p99) },
    { label: 'First byte', isNumber: true, cell: (row) => tellSeconds(row.first_byte?.median) },
  ];
  return [head, make('div', { class: 'scroll' }, composeTable('Errors by target', columns, targets))];
}
