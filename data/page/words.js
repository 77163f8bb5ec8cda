// Format states, times, money and arguments as text.
import { make } from './elements.js';

const MARKS = {
  queued: '…',
  working: '▶',
  waiting: '?',
  due: '…',
  broken_off: '!',
  stopped: '■',
  ended: '✓',
  failed: '!',
};

export function nameState(state) {
  return state.replace('_', ' ');
}

// The daemon words a run's state, so that it reads the same everywhere.
export function markState(summary) {
  return make(
    'span',
    { class: `mark ${summary.tone}` },
    make('span', { 'aria-hidden': 'true' }, `${MARKS[summary.tone] ?? '·'} `),
    summary.label,
  );
}

export function titleOf(row) {
  return row.name || row.first_words || row.id;
}

const DAY = { day: 'numeric', month: 'short' };
const CLOCK = { hour: '2-digit', minute: '2-digit' };
const WHOLE = new Intl.DateTimeFormat([], { dateStyle: 'full', timeStyle: 'long' });
const TODAY = new Intl.DateTimeFormat([], { ...DAY, ...CLOCK, second: '2-digit' });
const THIS_YEAR = new Intl.DateTimeFormat([], { ...DAY, ...CLOCK });
const LONG_AGO = new Intl.DateTimeFormat([], { ...DAY, year: 'numeric', ...CLOCK });

export function tellMoment(text) {
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime())) return make('time', {}, String(text));
  const now = new Date();
  const isThisYear = now.getFullYear() === moment.getFullYear();
  const style = now.toDateString() === moment.toDateString() ? TODAY : isThisYear ? THIS_YEAR : LONG_AGO;
  return make('time', { datetime: text, title: WHOLE.format(moment) }, style.format(moment));
}

export function tellDuration(seconds) {
  if (seconds === null || seconds === undefined) return '';
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [days, hours, minutes] = [
    Math.floor(whole / 86_400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
  ];
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

// Time that a run has worked; while it works, also the time since its last event.
export function tellWork(run, now = Date.now()) {
  const since = run.state === 'working' ? Math.max(0, (now - Date.parse(run.updated)) / 1000) : 0;
  return run.seconds + since;
}

// A local model, for example, has no price.
export function tellMoney(cents) {
  if (!cents) return '';
  return cents >= 100 ? `$${(cents / 100).toFixed(2)}` : `${Number(cents.toPrecision(3))} ¢`;
}

export function count(number, one, many = `${one}s`) {
  return `${Number(number).toLocaleString()} ${number === 1 ? one : many}`;
}

export function tellUse(summary) {
  return [
    summary.kind === 'flow' ? count(summary.visits, 'visit') : '',
    count(summary.answers, 'answer'),
    summary.invocations ? count(summary.invocations, 'invocation') : '',
    summary.tokens ? count(summary.tokens, 'token') : '',
    tellMoney(summary.cents),
  ].filter(Boolean);
}

// Indent JSON without parsing it, because parsing would round its numbers. Characters that
// are invisible or change the text direction are shown as JSON escapes.
export function layOut(json) {
  let depth = 0;
  let text = '';
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^"{}[\],:\s]+|"/gsu)) {
    if (token === '{' || token === '[') text += token + breakLine(++depth);
    else if (token === '}' || token === ']') text += breakLine(Math.max(0, --depth)) + token;
    else if (token === ',') text += token + breakLine(depth);
    else if (token === ':') text += ': ';
    else text += token;
  }
  return reveal(text.replace(/([{[])\n\s*([}\]])/g, '$1$2'));
}

function breakLine(depth) {
  return `\n${'  '.repeat(Math.max(0, depth))}`;
}

export function reveal(text) {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]|[\u{e0000}-\u{e0fff}]/gu,
    (found) =>
      Array.from({ length: found.length }, (_, at) => found.charCodeAt(at))
        .map((code) => `\\u${code.toString(16).padStart(4, '0')}`)
        .join(''),
  );
}

export function isSame(before, after) {
  return JSON.stringify(before) === JSON.stringify(after);
}
