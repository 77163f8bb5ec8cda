// Filter the cases of a report, and open the case that the address names.
// All texts are in the page as escaped HTML; nothing is parsed or fetched here.
'use strict';
(() => {
  const cases = Array.from(document.querySelectorAll('.case'));
  const words = document.getElementById('words');
  const kind = document.getElementById('kind');
  const count = document.getElementById('count');
  document.documentElement.classList.add('scripted');

  function filter() {
    const searched = words.value.trim().toLowerCase();
    let shown = 0;
    for (const each of cases) {
      const fits = kind.value === '' || each.dataset.kinds.split(' ').includes(kind.value);
      const name = each.querySelector('summary').textContent.toLowerCase();
      each.hidden = !(fits && name.includes(searched));
      shown += !each.hidden;
    }
    count.textContent = `${shown} of ${cases.length} shown`;
  }

  function open() {
    const target = document.getElementById(location.hash.slice(1));
    if (!target?.matches('.case')) return;
    target.hidden = false;
    target.open = true;
    target.scrollIntoView({ block: 'start' });
    target.querySelector('summary').focus({ preventScroll: true });
  }

  words.addEventListener('input', filter);
  kind.addEventListener('change', filter);
  addEventListener('hashchange', open);
  filter();
  open();
})();
