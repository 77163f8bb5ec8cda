// Keys of clients: list, add, limit, revoke.
import { linkToSpending } from './links.js';
import { askUser, complain, composeCopy, make, press, quote, say, show } from './elements.js';
import { ask, isOwn, post } from './service.js';
import { keep, tellShown } from './shell.js';
import { composeBar } from './charts.js';
import { composeMark, composeTable, isMissing, tellCents } from './operate-words.js';
import { count, tellMoment } from './words.js';

const PAUSE = 10_000;
const MOST = 200; // how many keys are shown
const COUNT = { type: 'number', min: '1', step: '1', inputmode: 'numeric', placeholder: 'no limit' };
const FIELDS = [
  ['cents_per_day', 'Cents a day (100 are one US dollar)', { ...COUNT, min: '0' }],
  ['requests_per_minute', 'Requests a minute', COUNT],
  ['tokens_per_minute', 'Tokens a minute', COUNT],
  ['models', 'Models, such as gpt-*, separated by commas', { placeholder: 'all' }],
  ['expires', 'Expiry: a date, or 12h, 30d, 8w', { placeholder: 'never' }],
];

export async function showKeys(main, signal) {
  let data = [];
  const words = make('input', {
    type: 'search',
    id: 'words',
    placeholder: 'Name or id',
    'aria-label': 'Search',
    on: { input: () => draw() },
  });
  const revoked = make('input', { type: 'checkbox', id: 'revoked', on: { change: () => draw() } });
  const created = make('div', {});
  const place = make('div', { class: 'scroll' });
  const rest = make('p', { class: 'none', hidden: true }, `These are the first ${MOST} keys. To see others, search.`);
  show(
    main,
    make(
      'div',
      { class: 'head' },
      make('h1', {}, 'Keys'),
      make(
        'div',
        { class: 'search' },
        words,
        make('label', { for: 'revoked' }, revoked, 'Revoked'),
        press('Add a key', add, { class: 'main', id: 'add' }),
      ),
    ),
    created,
    place,
    rest,
  );
  tellShown();
  function draw() {
    const found = data.filter(
      (key) =>
        (revoked.checked || key.state !== 'revoked') &&
        `${key.name} ${key.id}`.toLowerCase().includes(words.value.trim().toLowerCase()),
    );
    rest.hidden = found.length <= MOST;
    show(
      place,
      found.length
        ? composeKeys(found.slice(0, MOST), look)
        : make('p', { class: 'none' }, data.length ? 'No key matches.' : 'There are no keys.'),
    );
  }
  async function look() {
    try {
      data = (await ask('operate/keys', { signal })).data;
    } catch (error) {
      if (!isMissing(error)) throw error;
      show(
        place,
        make(
          'p',
          { class: 'hint' },
          'The keys of this gateway’s authorizer are not managed here, but only those of “keys”.',
        ),
      );
      document.getElementById('add').hidden = true;
      return;
    }
    complain(null);
    draw();
  }
  async function add() {
    const fields = await askUser(
      'Add a key',
      [['name', 'Name of a person or program', { required: true, maxlength: '200' }], ...FIELDS],
      'Add',
    );
    if (!fields) return;
    await perform(async () => {
      const { key, description } = await post('operate/keys', { name: fields.name.trim(), ...readLimits(fields) });
      show(created, composeCreated(key, description, () => show(created)));
      say(`Key of ${description.name} added.`);
      await look();
    });
  }
  await keep(look, signal, PAUSE);
}

async function perform(action) {
  try {
    complain(null);
    await action();
  } catch (error) {
    complain(error);
  }
}

function composeCreated(key, description, close) {
  const text = make('code', { class: 'secret' }, key);
  return make(
    'section',
    { class: 'created', 'aria-labelledby': 'created-title' },
    make('h2', { id: 'created-title' }, 'Key of ', quote(description.name)),
    make(
      'p',
      {},
      text,
      ' ',
      composeCopy(() => key),
    ),
    make(
      'p',
      { class: 'facts' },
      'It is shown only here and now. Anyone with this key can make requests in this name.',
    ),
    press('Done', close),
  );
}

// The limits in a form; those without a value are null.
function readLimits(fields) {
  const limits = {};
  for (const [name] of FIELDS) {
    const text = fields[name].trim();
    if (name === 'models') limits[name] = text.split(',').map((each) => each.trim()).filter(Boolean);
    else if (name === 'expires') limits[name] = text || null;
    else limits[name] = text ? Number(text) : null;
  }
  return limits;
}

const shorten = (moment) => (moment ? moment.replace(/\.\d+/, '') : '');

// Ask for new limits of a key; resolve to whether they were set.
async function changeLimits(key) {
  const before = { ...key, models: key.models.join(', '), expires: shorten(key.expires) };
  const fields = await askUser(
    `Limits of ${key.name}`,
    FIELDS.map(([name, label, attributes]) => [name, label, { ...attributes, value: before[name] }]),
    'Set limits',
  );
  if (!fields) return false;
  const limits = readLimits(fields);
  // Only what was changed here: another operator may have changed the rest.
  for (const [name] of FIELDS) if (fields[name].trim() === String(before[name] ?? '')) delete limits[name];
  if (!Object.keys(limits).length) return false;
  await ask(`operate/keys/${encodeURIComponent(key.id)}`, { method: 'PATCH', body: limits });
  say(`Limits of ${key.name} set.`);
  return true;
}

// Ask, and revoke a key; resolve to whether it was revoked.
async function revoke(key) {
  const own = ' It is the key that you use here: this page will refuse you.';
  const more = isOwn(key.id) ? own : key.operator ? ' It may operate this gateway.' : '';
  if (!(await askUser(`Revoke the key of ${key.name}? Its next request is refused.${more}`, [], 'Revoke')))
    return false;
  await post(`operate/keys/${encodeURIComponent(key.id)}/revoke`);
  say(`Key of ${key.name} revoked.`);
  return true;
}

export function composeActions(key, look) {
  if (key.state === 'revoked') return null;
  const run = (action) => () => perform(async () => (await action(key)) && (await look()));
  return make(
    'div',
    { class: 'actions' },
    press('Limit', run(changeLimits), { id: `limit-${key.id}`, 'aria-label': `Limit ${key.name}` }),
    press('Revoke', run(revoke), { id: `revoke-${key.id}`, class: 'danger', 'aria-label': `Revoke ${key.name}` }),
  );
}

export function composeKeyState(key) {
  if (key.state === 'revoked') return [composeMark('failed', '■', 'revoked'), ' ', tellMoment(key.revoked)];
  if (key.state === 'expired') return [composeMark('failed', '■', 'expired'), ' ', tellMoment(key.expires)];
  return [
    composeMark('ended', '✓', key.operator ? 'operator' : 'good'),
    key.expires ? [' until ', tellMoment(key.expires)] : '',
  ];
}

export function tellLimits(key) {
  return [
    key.models.length ? key.models.map((each, index) => [index ? ', ' : '', quote(each)]) : 'all models',
    key.requests_per_minute === null ? '' : `; ${count(key.requests_per_minute, 'request')} a minute`,
    key.tokens_per_minute === null ? '' : `; ${count(key.tokens_per_minute, 'token')} a minute`,
    key.cents_per_day === null ? '' : `; ${tellCents(key.cents_per_day)} a day`,
  ];
}

export function composeToday(key) {
  const spent = Number(key.today_cents) + Number(key.today_perhaps_cents);
  const budget = key.cents_per_day;
  const words = `${tellCents(spent)}${budget === null ? '' : ` of ${tellCents(budget)}`}`;
  const share = budget ? spent / budget : 1;
  return [words, budget === null ? null : composeBar(share, share >= 0.9 ? 'bad' : 'tone-1')];
}

function composeKeys(keys, look) {
  const columns = [
    { label: 'Name', cell: (key) => make('a', { href: linkToSpending(key.id) }, quote(key.name)) },
    { label: 'Id', cell: (key) => make('code', {}, key.id) },
    { label: 'State', cell: composeKeyState },
    { label: 'May use', cell: tellLimits },
    { label: 'Today (UTC)', cell: composeToday },
    { label: 'Actions', cell: (key) => composeActions(key, look) },
  ];
  return composeTable('Keys', columns, keys, { rowId: (key) => `key-${key.id}` });
}
