// Two conversations side by side: the common beginning, then the turns that differ.
import { complain, loadStyle, make, press, quote, say, show } from './elements.js';
import { linkToComparison, linkToTalk } from './links.js';
import { WORDS } from './messages.js';
import { choose } from './palette.js';
import { ask } from './service.js';
import { tellShown } from './shell.js';
import { RECENT } from './talk-new.js';
import { count, reveal, titleOf } from './words.js';

const PAGE = 20;
const NEAR = 3; // equal lines that are shown on each side of a change

export async function showComparison(main, signal, first, second) {
  loadStyle('talk.css');
  const names = [first, second].map((id) => make('a', { href: linkToTalk(id) }, quote(id)));
  const common = make('p', { class: 'facts' });
  const turns = make('div', {});
  const more = press('Show more', () => look(turns.childElementCount).catch(complain), { hidden: true, id: 'more' });
  const sides = make(
    'div',
    { class: 'sides titles' },
    make('p', {}, make('span', { class: 'facts' }, 'First'), names[0]),
    make('p', {}, make('span', { class: 'facts' }, 'Second'), names[1]),
  );
  show(
    main,
    make(
      'div',
      { class: 'comparison' },
      make(
        'div',
        { class: 'head' },
        make('h1', {}, 'Compare two conversations'),
        make('a', { class: 'button', href: linkToComparison(second, first) }, 'Swap'),
      ),
      sides,
      common,
      turns,
      more,
    ),
  );
  tellShown();

  async function look(after = 0) {
    const query = new URLSearchParams({ other: second, limit: String(PAGE), after: String(after) });
    const told = await ask(`conversations/${encodeURIComponent(first)}/difference?${query}`, { signal });
    show(common, tellCommon(told, first));
    turns.append(...told.data.map((turn) => composeTurn(turn, first, second)));
    more.hidden = !told.has_more;
    say(told.count ? `${count(told.count, 'turn')} differ.` : 'No differences.', true);
  }
  await look();
  await Promise.all([first, second].map((id, side) => nameSide(names[side], id, signal)));
}

async function nameSide(place, id, signal) {
  const { data } = await ask(`conversations/${encodeURIComponent(id)}/family`, { signal });
  const row = data.find((each) => each.id === id);
  if (row) show(place, quote(row.own_words || titleOf(row)));
}

function tellCommon({ common, count: number }, first) {
  if (!number) return 'No differences: both say the same.';
  if (!common.messages) return 'No common beginning.';
  const last = tell(common.last).slice(0, 120);
  return [
    `${count(common.messages, 'common message')}${common.shared === common.messages ? ' (shared)' : ''}, up to `,
    make('a', { href: linkToTalk(first, common.last.index) }, `message ${common.last.index + 1}`),
    last ? [': ', quote(reveal(last))] : null,
  ].flat();
}

function tell(canister) {
  return (canister.content ?? []).map((each) => each.text ?? '').join(' ').replace(/\s+/g, ' ').trim();
}

function composeTurn({ first: one, second: other, messages }, first, second) {
  const words =
    one && other
      ? `Turn ${one === other ? one : `${one} / ${other}`}: changed`
      : one
        ? `Turn ${one}: only in the first`
        : `Turn ${other}: only in the second`;
  return make(
    'section',
    { class: 'turn' },
    make('h2', {}, words),
    messages.map((each) =>
      make(
        'div',
        { class: 'sides' },
        composeSide(each.first, each.words, 'removed', first, 'First'),
        composeSide(each.second, each.words, 'added', second, 'Second'),
      ),
    ),
  );
}

function composeSide(canister, words, change, id, side) {
  if (!canister)
    return make('div', { class: 'side none', role: 'group', 'aria-label': `${side}: no message` }, 'No message');
  const model = canister.origin
    ? ` · ${[canister.origin.provider, canister.origin.model].filter(Boolean).join(':')}`
    : '';
  const role = WORDS[canister.role] ?? canister.role;
  const tag = change === 'removed' ? 'del' : 'ins';
  const pieces = words.filter(([kind]) => kind === 'equal' || kind === change);
  return make(
    'article',
    { class: `side ${change}`, 'aria-label': `${side}: ${role}, message ${canister.index + 1}` },
    make(
      'header',
      {},
      make('span', { class: 'facts' }, `${side} · `),
      make('a', { class: 'facts', href: linkToTalk(id, canister.index) }, `${role}, message ${canister.index + 1}`),
      make('span', { class: 'facts' }, quote(reveal(model))),
    ),
    make(
      'div',
      { class: 'text', dir: 'auto' },
      pieces.map(([kind, text], at) =>
        kind === 'equal' ? shorten(text, at === 0, at === pieces.length - 1) : make(tag, {}, text),
      ),
    ),
  );
}

// Leave out equal lines that are far from a change.
function shorten(text, isFirst, isLast) {
  const lines = text.split('\n');
  const before = isFirst ? 0 : NEAR;
  const after = isLast ? 0 : NEAR;
  const left = lines.length - before - after;
  if (left < 4) return text;
  const parts = [
    lines.slice(0, before).join('\n'),
    `⋯ ${left} equal lines`,
    after ? lines.slice(-after).join('\n') : '',
  ];
  return parts.filter(Boolean).join('\n');
}

// Ask for another conversation: a branch of this one, one of the latest, or one that contains words.
export async function chooseOther(id) {
  const [family, recent] = await Promise.all([
    ask(`conversations/${encodeURIComponent(id)}/family`),
    ask(`conversations?limit=${RECENT}`),
  ]);
  const describe = (row, group) => ({
    label: row.own_words || titleOf(row),
    group,
    id: row.id,
    facts: [count(row.canisters, 'message')],
  });
  const known = new Set(family.data.map((row) => row.id));
  const rows = [
    ...family.data.map((row) => describe(row, 'Branches')),
    ...recent.data.filter((row) => !known.has(row.id)).map((row) => describe(row, 'Latest')),
  ];
  const find = async (words) => {
    const { data } = await ask(`conversations?${new URLSearchParams({ query: words, limit: '20' })}`);
    return data.map((hit) => ({ label: hit.name || hit.snippet, group: 'Found', id: hit.id }));
  };
  const chosen = await choose(
    'Compare with',
    rows.filter((row) => row.id !== id),
    { find, placeholder: 'Compare with a branch or another conversation' },
  );
  return chosen?.id;
}
