// Charts in SVG: lines over time, and stacked columns by day. Each has its words and a table.
import { make, sanitize, say, show } from './elements.js';

const SPACE = 'http://www.w3.org/2000/svg';
const HEIGHT = 180;
const EDGE = { top: 8, right: 12, bottom: 24, left: 56 };

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(
    ...children
      .flat()
      .filter(Boolean)
      .map((child) => (child instanceof Node ? child : sanitize(String(child)))),
  );
  return element;
}

// Round values that divide an axis from 0 to at least `most`.
function findTicks(most, count = 4) {
  if (!(most > 0)) return [0, 1];
  const raw = most / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw * (1 - 1e-9));
  const ticks = [];
  for (let at = 0; at < Math.ceil(most / step - 1e-9) + 1; at += 1) ticks.push(Number((at * step).toPrecision(12)));
  return ticks;
}

// Frame of a chart: title, words, legend, plot, what the pointer or the arrow keys are at, and a table.
function composeFrame({ id, title, formatX, formatY, headX }) {
  const words = make('p', { class: 'facts words' });
  const legend = make('ul', { class: 'legend', 'aria-hidden': 'true' });
  const plot = draw('svg', {
    class: 'plot',
    role: 'img',
    tabindex: '0',
    'aria-labelledby': `${id}-title`,
    'aria-describedby': `${id}-words`,
    height: HEIGHT,
    width: '100%',
  });
  const at = make('p', { class: 'facts at' });
  const body = make('div', { class: 'scroll' });
  const table = make('details', { on: { toggle: () => fill() } }, make('summary', {}, 'Table'), body);
  const element = make(
    'figure',
    { class: 'chart', id },
    make('figcaption', {}, make('h2', { id: `${id}-title` }, title)),
    words,
    legend,
    plot,
    at,
    table,
  );
  words.id = `${id}-words`;
  let data = { x: [], series: [] };
  let chosen = -1;

  function fill() {
    if (!table.open) return;
    const rows = data.x
      .map((x, index) => [x, index])
      .filter(([, index]) => data.series.some((each) => each.values[index]));
    show(
      body,
      make(
        'table',
        { class: 'sheet' },
        make(
          'thead',
          {},
          make(
            'tr',
            {},
            make('th', { scope: 'col' }, headX),
            data.series.map((each) => make('th', { scope: 'col', class: 'number' }, each.label)),
          ),
        ),
        make(
          'tbody',
          {},
          rows.reverse().map(([x, index]) =>
            make(
              'tr',
              {},
              make('th', { scope: 'row' }, formatX(x)),
              data.series.map((each) => make('td', { class: 'number' }, tell(each.values[index]))),
            ),
          ),
        ),
      ),
      rows.length ? null : make('p', { class: 'none' }, 'Nothing yet.'),
    );
  }
  function tell(value) {
    return value === null || value === undefined ? '–' : formatY(value);
  }
  function choose(index, isTold = false) {
    chosen = index;
    const is = index >= 0 && index < data.x.length;
    const text = is
      ? [formatX(data.x[index]), ...data.series.map((each) => `${each.label} ${tell(each.values[index])}`)].join(' · ')
      : '';
    at.textContent = sanitize(text);
    plot.dispatchEvent(new CustomEvent('chosen', { detail: is ? index : -1 }));
    if (isTold && text) say(text, true);
  }
  plot.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step || !data.x.length) return;
    event.preventDefault();
    const from = chosen < 0 ? data.x.length - (step < 0 ? 0 : 1) : chosen;
    choose(Math.max(0, Math.min(data.x.length - 1, from + step)), true);
  });
  plot.addEventListener('pointerleave', () => choose(-1));
  plot.addEventListener('blur', () => choose(-1));
  return {
    element,
    plot,
    choose,
    adopt(next, told) {
      data = next;
      words.textContent = sanitize(told);
      for (const each of [plot, table]) each.toggleAttribute('hidden', !data.series.length);
      show(
        legend,
        data.series.map((each) => make('li', {}, make('span', { class: `swatch ${each.tone}` }), each.label)),
      );
      fill();
      choose(chosen);
    },
  };
}

// Keep a plot as wide as its place.
function followWidth(plot, redraw) {
  let width = 0;
  new ResizeObserver(([entry]) => {
    const next = Math.floor(entry.contentRect.width);
    if (next && next !== width) redraw((width = next));
  }).observe(plot);
  return () => width;
}

function drawAxes(ticks, y, width, formatY) {
  return ticks.map((tick) => [
    draw('line', { class: 'grid', x1: EDGE.left, x2: width - EDGE.right, y1: y(tick), y2: y(tick) }),
    draw('text', { class: 'tick', x: EDGE.left - 8, y: y(tick) + 4, 'text-anchor': 'end' }, formatY(tick)),
  ]);
}

// Labels below a chart, as many as fit; times at round minutes.
function drawLabels(x, place, formatX, width) {
  const many = Math.max(1, Math.floor((width - EDGE.left - EDGE.right) / 90));
  const step = Math.max(1, Math.ceil(x.length / many));
  const span = x.length > 1 && typeof x[0] === 'number' ? x.at(-1) - x[0] : 0;
  const minutes = [5, 10, 15, 30, 60].find((each) => span / (each * 60_000) <= many) ?? 60;
  const isShown = (each, index) => (span ? each % (minutes * 60_000) === 0 : index % step === 0);
  const findAnchor = (index) => (!index ? 'start' : place(index) > width - 40 ? 'end' : 'middle');
  return x.map((each, index) =>
    !isShown(each, index)
      ? null
      : draw(
          'text',
          { class: 'tick', x: place(index), y: HEIGHT - 6, 'text-anchor': findAnchor(index) },
          formatX(each),
        ),
  );
}

// Lines over time. `update` takes times, series of values (null for none) with `label` and `tone`,
// and the words that say the same.
export function composeLineChart(options) {
  const { formatX, formatY } = options;
  const frame = composeFrame(options);
  const { plot } = frame;
  let data = { x: [], series: [] };
  const readWidth = followWidth(plot, redraw);

  const place = (index) =>
    EDGE.left + (index * (readWidth() - EDGE.left - EDGE.right)) / Math.max(1, data.x.length - 1);
  function redraw() {
    const width = readWidth();
    if (!width) return;
    const most = Math.max(0, ...data.series.flatMap((each) => each.values.map((value) => value ?? 0)));
    const ticks = findTicks(most);
    const y = (value) => HEIGHT - EDGE.bottom - (value / ticks.at(-1)) * (HEIGHT - EDGE.top - EDGE.bottom);
    plot.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    plot.replaceChildren(
      ...drawAxes(ticks, y, width, formatY).flat(),
      ...drawLabels(data.x, place, formatX, width).filter(Boolean),
      ...data.series.map((each) => draw('path', { class: `line ${each.tone}`, d: trace(each.values, place, y) })),
      draw('line', { class: 'cursor', y1: EDGE.top, y2: HEIGHT - EDGE.bottom, x1: -9, x2: -9 }),
    );
  }
  plot.addEventListener('pointermove', (event) => {
    const share = (event.offsetX - EDGE.left) / Math.max(1, readWidth() - EDGE.left - EDGE.right);
    frame.choose(Math.max(0, Math.min(data.x.length - 1, Math.round(share * (data.x.length - 1)))));
  });
  plot.addEventListener('chosen', ({ detail }) => {
    const cursor = plot.querySelector('.cursor');
    const at = detail < 0 ? -9 : place(detail);
    for (const name of ['x1', 'x2']) cursor?.setAttribute(name, at);
  });
  return {
    element: frame.element,
    update(next, told) {
      data = next;
      redraw();
      frame.adopt(data, told);
    },
  };
}

// A value between two gaps is a dot: a line of no length with round ends.
function trace(values, place, y) {
  let path = '';
  values.forEach((value, index) => {
    if (value === null || value === undefined) return;
    const before = values[index - 1];
    const isBegin = before === null || before === undefined;
    path += `${isBegin ? 'M' : 'L'}${place(index).toFixed(1)} ${y(value).toFixed(1)}`;
    const after = values[index + 1];
    if (isBegin && (after === null || after === undefined)) path += 'h0.01';
  });
  return path;
}

// Stacked columns. `update` takes names of the columns, and series as of lines.
export function composeColumnChart(options) {
  const { formatX, formatY } = options;
  const frame = composeFrame(options);
  const { plot } = frame;
  let data = { x: [], series: [] };
  const readWidth = followWidth(plot, redraw);
  const step = () => (readWidth() - EDGE.left - EDGE.right) / Math.max(1, data.x.length);
  const place = (index) => EDGE.left + (index + 0.5) * step();

  function redraw() {
    const width = readWidth();
    if (!width) return;
    const sums = data.x.map((_, index) => data.series.reduce((sum, each) => sum + (each.values[index] ?? 0), 0));
    const ticks = findTicks(Math.max(0, ...sums));
    const y = (value) => HEIGHT - EDGE.bottom - (value / ticks.at(-1)) * (HEIGHT - EDGE.top - EDGE.bottom);
    const thick = Math.max(1, Math.min(48, step() * 0.8));
    const columns = data.x.flatMap((_, index) => {
      let base = 0;
      return data.series.map((each) => {
        const value = each.values[index] ?? 0;
        if (!value) return null;
        base += value;
        return draw('rect', {
          class: `column ${each.tone}`,
          x: (place(index) - thick / 2).toFixed(1),
          width: thick.toFixed(1),
          y: y(base).toFixed(1),
          height: Math.max(1, y(base - value) - y(base)).toFixed(1),
        });
      });
    });
    plot.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    plot.replaceChildren(
      draw('rect', {
        class: 'cursor wide',
        y: EDGE.top,
        height: HEIGHT - EDGE.top - EDGE.bottom,
        x: -999,
        width: step(),
      }),
      ...drawAxes(ticks, y, width, formatY).flat(),
      ...drawLabels(data.x, place, formatX, width).filter(Boolean),
      ...columns.filter(Boolean),
    );
  }
  plot.addEventListener('pointermove', (event) => {
    frame.choose(Math.max(0, Math.min(data.x.length - 1, Math.floor((event.offsetX - EDGE.left) / step()))));
  });
  plot.addEventListener('chosen', ({ detail }) => {
    plot.querySelector('.cursor')?.setAttribute('x', detail < 0 ? -999 : place(detail) - step() / 2);
  });
  return {
    element: frame.element,
    update(next, told) {
      data = next;
      redraw();
      frame.adopt(data, told);
    },
  };
}

// A bar beside a number, for tables: the number is in the table, too.
export function composeBar(share, tone = 'tone-1') {
  const part = Math.max(0, Math.min(1, share || 0));
  return draw(
    'svg',
    { class: 'bar-plot', 'aria-hidden': 'true', height: 8, width: '100%' },
    draw('rect', { class: 'rest', width: '100%', height: 8, rx: 2 }),
    draw('rect', { class: `column ${tone}`, width: `${(100 * part).toFixed(2)}%`, height: 8, rx: 2 }),
  );
}
