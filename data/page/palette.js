// Dialog to choose one of many: a search field and a list, for the mouse and the keyboard.
import { make, press, quote, say, show, whenClosed } from './elements.js';
import { count } from './words.js';

const MOST = 60; // how many rows are shown
const PAUSE = 120; // before typed words are sent

// Resolve to the chosen item, or null. Items have `label`, and may have `detail`, `facts`, `group`
// and `isChosen`. `find` returns further items for words, from the daemon. With `toggle`, the dialog
// stays open, and each item that is chosen is turned on or off.
export function choose(title, items, { find = null, toggle = null, placeholder = 'Search' } = {}) {
  const dialog = document.getElementById('palette');
  if (dialog.open) return Promise.resolve(null);
  const list = make('ul', {
    role: 'listbox',
    id: 'choices',
    'aria-label': title,
    'aria-multiselectable': toggle ? 'true' : null,
  });
  const done = toggle
    ? make(
        'div',
        { class: 'actions' },
        make('span', { class: 'facts' }, 'Enter turns on or off.'),
        press('Done', () => dialog.close(), { class: 'main' }),
      )
    : '';
  const none = make('p', { class: 'none', hidden: true }, 'No matches.');
  const field = make('input', {
    type: 'text', id: 'choice', role: 'combobox', autocomplete: 'off', spellcheck: 'false', placeholder,
    'aria-label': title, 'aria-controls': 'choices', 'aria-expanded': 'true', 'aria-autocomplete': 'list',
  });
  let shown = [];
  let at = 0;
  let timer = 0;
  let asked = 0;

  return new Promise((resolve) => {
    let answer = null;
    const take = (item) => {
      if (toggle) {
        item.isChosen = !item.isChosen;
        toggle(item);
        draw(shown, shown.indexOf(item));
        say(`${item.label}: ${item.isChosen ? 'on' : 'off'}.`, true);
        return;
      }
      answer = item;
      dialog.close();
    };
    function mark(index, moves = true) {
      at = Math.max(0, Math.min(shown.length - 1, index));
      Array.from(list.querySelectorAll('[role=option]')).forEach((row, each) => {
        row.setAttribute('aria-selected', String(each === at));
        if (each === at && moves) row.scrollIntoView({ block: 'nearest' });
      });
      if (shown.length) field.setAttribute('aria-activedescendant', `choice-${at}`);
      else field.removeAttribute('aria-activedescendant');
    }
    function draw(found, marked = found.findIndex((each) => each.isChosen)) {
      shown = found.slice(0, MOST);
      let group = '';
      const rows = shown.flatMap((item, index) => {
        const head =
          item.group && item.group !== group ? make('li', { role: 'presentation', class: 'group' }, item.group) : null;
        group = item.group ?? '';
        return [head, composeRow(item, index, take, Boolean(toggle))];
      });
      show(list, rows);
      none.hidden = shown.length > 0;
      mark(Math.max(0, marked));
    }
    async function look() {
      const words = field.value.trim().toLowerCase();
      const mine = ++asked;
      const near = items.filter((each) => matches(each, words));
      draw(near);
      if (!find || !words) return;
      clearTimeout(timer);
      timer = setTimeout(async () => {
        const more = await find(words).catch(() => []);
        if (mine === asked && dialog.open) {
          draw([...near, ...more]);
          say(`${count(shown.length, 'match', 'matches')}.`, true);
        }
      }, PAUSE);
    }
    field.addEventListener('input', look);
    field.addEventListener('keydown', (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
      if (step) mark(at + step);
      else if (event.key === 'Enter' && !event.isComposing && shown[at]) take(shown[at]);
      else return;
      event.preventDefault();
    });
    dialog.replaceChildren(field, list, none, done);
    dialog.onclick = (event) => event.target === dialog && dialog.close();
    whenClosed(dialog, field, () => resolve(answer));
    draw(items);
    dialog.showModal();
    field.focus();
  });
}

function composeRow(item, index, take, isToggle) {
  return make(
    'li',
    {
      role: 'option',
      id: `choice-${index}`,
      'aria-selected': 'false',
      'aria-checked': isToggle ? String(Boolean(item.isChosen)) : null,
      on: { click: () => take(item) },
    },
    make('span', { class: 'label' }, quote(item.label)),
    item.isChosen ? make('span', { class: 'check', 'aria-label': 'chosen' }, '✓') : null,
    item.facts?.length ? make('span', { class: 'facts' }, item.facts.join(' · ')) : null,
    item.detail ? make('span', { class: 'facts detail' }, quote(item.detail)) : null,
  );
}

// Each word occurs somewhere in the row.
function matches(item, words) {
  const text = [item.label, item.detail, ...(item.facts ?? [])].join(' ').toLowerCase();
  return words.split(/\s+/).every((word) => text.includes(word));
}
