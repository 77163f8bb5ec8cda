// Steps as bars on a time axis: a tree for the keyboard and for screen readers. Only the rows in
// view are elements, so that thousands of steps cost no more than a few.
import { make } from './elements.js';
import { describe, describeName, STATES } from './step-facts.js';
import { composeScale, endOf, secondsOf, startOf } from './time-axis.js';
import { tellDuration } from './words.js';

const ROW = 30; // pixels, as in watch.css
const SPARE = 5; // rows above and below the view
const MANY = 200; // from this number of steps on, the axis shows the rows in view
const LETTER = 6.5; // pixels of a letter of the words at a bar

// `choose` receives the row that the user selects, and whether by keyboard; `toggle` the key of a
// row whose inner steps are shown or hidden; `name` returns the name of a step.
export function composeWaterfall({ choose, toggle, name = (step) => step.name }) {
  let rows = [];
  let scale = composeScale([], 0);
  let now = 0;
  let active = '';
  let chosen = '';
  const elements = new Map();

  const axis = make('div', { class: 'axis', 'aria-hidden': 'true' });
  const space = make('div', { class: 'space', role: 'presentation' });
  const tree = make(
    'div',
    {
      class: 'steps',
      role: 'tree',
      tabindex: '0',
      'aria-label': 'Steps',
      on: { keydown: steer, click: point, scroll: draw, focus: draw, blur: draw },
    },
    space,
  );
  const zoom = make('input', { type: 'checkbox', id: 'zoom-steps', on: { change: draw } });
  const zoomLabel = make(
    'label',
    { for: 'zoom-steps', class: 'zoom', hidden: true },
    zoom,
    ' Fit the time axis to the steps in view',
  );
  const none = make('p', { class: 'none' }, 'No steps yet.');
  const element = make('div', { class: 'waterfall' }, axis, tree, zoomLabel, none);
  const watched = new ResizeObserver(draw);
  watched.observe(tree);

  const findIndex = (key) => rows.findIndex((row) => row.key === key);

  function update(found, moment) {
    const wasFew = rows.length < MANY;
    rows = found;
    now = moment;
    scale = composeScale(rows.map(({ step }) => step), now);
    if (wasFew && rows.length >= MANY) zoom.checked = true;
    zoomLabel.hidden = rows.length < 20;
    none.hidden = rows.length > 0;
    tree.hidden = axis.hidden = !rows.length;
    if (findIndex(active) < 0) active = rows[0]?.key ?? '';
    space.style.height = `${rows.length * ROW}px`;
    draw();
  }

  function draw() {
    const height = tree.clientHeight || ROW;
    const first = Math.max(0, Math.floor(tree.scrollTop / ROW) - SPARE);
    const last = Math.min(rows.length, Math.ceil((tree.scrollTop + height) / ROW) + SPARE);
    const shown = rows.slice(first, last);
    const isZoomed = zoom.checked && !zoomLabel.hidden;
    const range = isZoomed
      ? measure(rows.slice(first + (first ? SPARE : 0), last - (last < rows.length ? SPARE : 0)))
      : [0, 1];
    const width = axis.firstChild?.clientWidth || 1;
    const keys = new Set(shown.map((row) => row.key));
    for (const [key, each] of elements) if (!keys.has(key)) (each.remove(), elements.delete(key));
    shown.forEach((row, index) => {
      let each = elements.get(row.key);
      if (!each) {
        each = composeRow();
        elements.set(row.key, each);
      }
      if (space.children[index] !== each) space.insertBefore(each, space.children[index] ?? null);
      fill(each, row, first + index, range, width);
    });
    tree.setAttribute('aria-activedescendant', keys.has(active) ? idOf(active) : '');
    drawAxis(range);
  }

  // The part of the axis that some rows take.
  function measure(found) {
    const edges = found.flatMap(({ step }) => [scale.place(startOf(step)), scale.place(endOf(step, now))]);
    if (!edges.length) return [0, 1];
    const [low, high] = [Math.min(...edges), Math.max(...edges)];
    return high - low > 1e-9 ? [low, high] : [Math.max(0, low - 1e-6), low + 1e-6];
  }

  function fill(each, row, index, [low, high], width) {
    const { step } = row;
    const place = (moment) => Math.min(1, Math.max(0, (scale.place(moment) - low) / (high - low)));
    const [left, right] = [place(startOf(step)), place(endOf(step, now))];
    const seconds = secondsOf(step, now);
    const title = describeName(step, name);
    const facts = [seconds ? tellDuration(seconds) : '', STATES[step.state]].filter(Boolean).join(' · ');
    each.style.top = `${index * ROW}px`;
    const attributes = {
      id: idOf(row.key),
      class: `step kind-${step.kind} state-${step.state}${row.key === active ? ' active' : ''}`,
      'aria-level': row.depth + 1,
      'aria-posinset': row.position,
      'aria-setsize': row.size,
      'aria-selected': row.key === chosen,
      'aria-label': describe(step, title, seconds, scale.passed(startOf(step))),
    };
    if (row.isOpen !== null) attributes['aria-expanded'] = row.isOpen;
    for (const [attribute, value] of Object.entries(attributes))
      if (each.getAttribute(attribute) !== String(value)) each.setAttribute(attribute, String(value));
    const { twist, label, bar, text } = each.parts;
    each.style.setProperty('--depth', String(Math.min(row.depth, 6)));
    write(twist, row.isOpen === null ? '' : row.isOpen ? '▾' : '▸');
    write(label, title);
    write(text, facts);
    bar.style.left = `${100 * left}%`;
    bar.style.width = `${100 * (right - left)}%`;
    // The words stand behind a bar, or before it if there is no room.
    const needed = (LETTER * facts.length + 14) / width;
    const isBehind = 1 - right >= needed;
    const isBefore = !isBehind && left >= needed;
    text.classList.toggle('inside', !isBehind && !isBefore);
    text.style.left = isBehind ? `${100 * right}%` : '';
    text.style.right = isBehind ? '' : `${100 * (1 - (isBefore ? left : right))}%`;
  }

  function drawAxis([low, high]) {
    const ticks = scale.survey(low, high).map(([place, text]) => {
      const tick = make('span', { class: 'tick' }, text);
      tick.style.left = `${(100 * (place - low)) / (high - low)}%`;
      return tick;
    });
    const breaks = scale.pauses
      .filter(({ from, to }) => to > low && from < high && to - from > 0.01 * (high - low))
      .map(({ from, to, seconds }) => {
        const mark = make('span', { class: 'pause', title: `${tellDuration(seconds)} without work` }, '⋯');
        mark.style.left = `${(100 * (Math.max(from, low) - low)) / (high - low)}%`;
        mark.style.width = `${(100 * (Math.min(to, high) - Math.max(from, low))) / (high - low)}%`;
        return mark;
      });
    axis.replaceChildren(make('div', { class: 'track' }, breaks, ticks));
  }

  function activate(index) {
    const row = rows[Math.min(rows.length - 1, Math.max(0, index))];
    if (!row) return;
    active = row.key;
    const top = findIndex(active) * ROW;
    if (top < tree.scrollTop) tree.scrollTop = top;
    else if (top + ROW > tree.scrollTop + tree.clientHeight) tree.scrollTop = top + ROW - tree.clientHeight;
    draw();
  }

  function select(row, isByKey) {
    active = chosen = row.key;
    draw();
    choose(row, isByKey);
  }

  // The row under the pointer, by its place: its element may be another one by now.
  function point(event) {
    const index = Math.floor((event.clientY - tree.getBoundingClientRect().top + tree.scrollTop) / ROW);
    const row = event.clientY ? rows[index] : rows[findIndex(keyOf(event.target.closest?.('.step')))];
    if (!row) return;
    if (row.isOpen !== null && event.target.closest?.('.twist')) (activate(findIndex(row.key)), toggle(row.key));
    else select(row, false);
  }

  function steer(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const index = findIndex(active);
    const row = rows[index];
    if (!row) return;
    const page = Math.max(1, Math.floor(tree.clientHeight / ROW) - 1);
    const moves = {
      ArrowDown: index + 1,
      ArrowUp: index - 1,
      PageDown: index + page,
      PageUp: index - page,
      Home: 0,
      End: rows.length - 1,
    };
    if (event.key in moves) activate(moves[event.key]);
    else if (event.key === 'Enter' || event.key === ' ') select(row, true);
    else if (event.key === 'ArrowRight' && row.isOpen === false) toggle(row.key);
    else if (event.key === 'ArrowRight' && row.isOpen) activate(index + 1);
    else if (event.key === 'ArrowLeft' && row.isOpen) toggle(row.key);
    else if (event.key === 'ArrowLeft' && row.parent) activate(findIndex(row.parent.key));
    else return;
    event.preventDefault();
  }

  // Select a row from outside, without moving the focus.
  function show(key) {
    const index = findIndex(key);
    if (index < 0) return false;
    activate(index);
    select(rows[index], false);
    return true;
  }
  return { element, update, show, redraw: (moment) => update(rows, moment), close: () => watched.disconnect() };
}

const idOf = (key) => `step-${key}`;
const keyOf = (element) => element?.id.slice('step-'.length);

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function composeRow() {
  const parts = {
    twist: make('span', { class: 'twist' }),
    label: make('bdi', { class: 'label', dir: 'auto' }),
    bar: make('span', { class: 'bar' }),
    text: make('span', { class: 'facts' }),
  };
  const element = make(
    'div',
    { role: 'treeitem' },
    make('span', { class: 'what', 'aria-hidden': 'true' }, parts.twist, parts.label),
    make('span', { class: 'track', 'aria-hidden': 'true' }, parts.bar, parts.text),
  );
  element.parts = parts;
  return element;
}
