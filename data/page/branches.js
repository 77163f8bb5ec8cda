// The branches of a conversation: a tree beside it, and a switch at each message where they part.
import { make, press, quote, show } from './elements.js';
import { linkToComparison } from './links.js';
import { WORDS } from './messages.js';
import { ask } from './service.js';
import { count, tellMoment, titleOf } from './words.js';

const DEEPEST = 6; // levels that are indented

// Tree of the branches; `link` returns the address of a conversation, at a message if one is given.
// `onChange` is called when the branches are known.
export function composeBranches(id, signal, { link, onChange = () => {} }) {
  const list = make('ul', { on: { keydown: walk } });
  const title = make('span', {});
  const element = make(
    'details',
    { class: 'branches', hidden: true, open: matchMedia('(min-width: 80rem)').matches },
    make('summary', {}, title),
    make('nav', { 'aria-label': 'Branches' }, list),
  );
  let parting = new Map(); // the branches that part from this one, by the number of shared messages

  async function look() {
    const { data } = await ask(`conversations/${encodeURIComponent(id)}/family`, { signal });
    parting = survey(data, id);
    element.hidden = data.length < 2;
    title.textContent = count(data.length, 'branch', 'branches');
    show(list, data.map(composeRow));
    onChange();
  }

  function composeRow(row) {
    const isOpen = row.id === id;
    const words = row.own_words || (row.parent ? '' : titleOf(row));
    const place =
      row.depth === 0
        ? 'The beginning'
        : row.shared === null
          ? 'A fork'
          : row.shared
            ? `After message ${row.shared}`
            : 'From the beginning';
    return make(
      'li',
      { 'aria-level': String(row.depth + 1), class: `level-${Math.min(DEEPEST, row.depth)}` },
      make(
        'a',
        {
          href: link(row.id, row.depth && row.shared !== null ? Math.min(row.shared, row.canisters - 1) : undefined),
          'aria-current': isOpen ? 'true' : null,
          id: `branch-${row.id}`,
        },
        make('span', { class: 'facts' }, place),
        make(
          'span',
          { class: 'label' },
          row.own_role && row.own_words ? `${WORDS[row.own_role] ?? row.own_role}: ` : null,
          words ? quote(words) : 'No message of its own',
        ),
        make('span', { class: 'facts' }, `${count(row.canisters, 'message')} · `, tellMoment(row.updated)),
      ),
      isOpen
        ? null
        : make(
            'a',
            {
              class: 'quiet compare',
              href: linkToComparison(id, row.id),
              'aria-label': `Compare with the branch ${words || place}`,
            },
            'Compare',
          ),
    );
  }

  // The arrow keys go from branch to branch; left goes to the branch that this one came from.
  function walk(event) {
    const rows = Array.from(list.children);
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const level = (index) => Number(rows[index]?.getAttribute('aria-level'));
    let to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (event.key === 'ArrowLeft') to = rows.slice(0, at).findLastIndex((_, index) => level(index) < level(at));
    if (event.key === 'ArrowRight') to = level(at + 1) > level(at) ? at + 1 : at;
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    rows[Math.max(0, Math.min(rows.length - 1, to))]?.querySelector('a').focus();
  }

  // Buttons to go to the other versions of a message; null if there are none.
  function composeSwitch(index) {
    const versions = parting.get(index);
    if (!versions) return null;
    const at = versions.findIndex((each) => each.isOwn);
    const go = (step) => {
      location.hash = link(versions[(at + step + versions.length) % versions.length].id, index);
    };
    return make(
      'span',
      { class: 'switch', role: 'group', 'aria-label': `Versions of message ${index + 1}` },
      press('‹', () => go(-1), { class: 'quiet', 'aria-label': `Previous version of message ${index + 1}` }),
      make('span', { class: 'facts' }, `${at + 1} of ${versions.length}`),
      press('›', () => go(1), { class: 'quiet', 'aria-label': `Next version of message ${index + 1}` }),
    );
  }
  return { element, look, composeSwitch };
}

// Return for each message that has other versions where they are: one branch for each, oldest first.
function survey(rows, id) {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const parentOf = (row) => (row.depth ? byId.get(row.parent) : undefined);
  const shared = new Map([[id, Infinity]]); // how many leading messages a branch shares with this one
  const own = [];
  for (let row = byId.get(id); row; row = parentOf(row)) own.push(row);
  for (let at = 1, least = Infinity; at < own.length; at += 1) {
    least = Math.min(least, own[at - 1].shared ?? 0);
    shared.set(own[at].id, least);
  }
  // Parents come before their forks.
  for (const row of rows)
    if (!shared.has(row.id)) shared.set(row.id, Math.min(shared.get(row.parent) ?? 0, row.shared ?? 0));
  // The branch in which a branch's message at a place was written.
  const origin = (row, place) => {
    while (parentOf(row) && (row.shared ?? 0) > place) row = parentOf(row);
    return row;
  };
  const parting = new Map();
  const mine = byId.get(id);
  for (const row of rows) {
    const place = shared.get(row.id);
    if (row.id === id || row.canisters <= place || mine.canisters <= place) continue;
    if (!parting.has(place)) {
      const first = origin(mine, place);
      parting.set(place, new Map([[first.id, { id, isOwn: true, updated: mine.updated, created: first.created }]]));
    }
    const versions = parting.get(place);
    const first = origin(row, place);
    const known = versions.get(first.id);
    if (known?.isOwn || (known && known.updated >= row.updated)) continue;
    versions.set(first.id, { id: row.id, isOwn: false, updated: row.updated, created: first.created });
  }
  const order = (one, other) => one.created.localeCompare(other.created) || one.id.localeCompare(other.id);
  return new Map(
    Array.from(parting, ([place, versions]) => [place, Array.from(versions.values()).sort(order)]).filter(
      ([, versions]) => versions.length > 1,
    ),
  );
}
