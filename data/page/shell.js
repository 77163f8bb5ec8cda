// Frame of a page: shows the view that the part of the address after # names, and asks for a key.
import { complain, make, show } from './elements.js';
import { adoptKey, askForKey, wait } from './service.js';

const LOOK = 1500;
const SHARE = 8; // a look is repeated after so many times the time that it took
const main = document.getElementById('main');
let leaving = new AbortController();

export function tellShown() {
  document.dispatchEvent(new Event('shown'));
}

// Look again and again until the view is left, but not while its tab is hidden; an error is shown,
// and the look repeated.
export async function keep(look, signal, pause = LOOK) {
  let isFirst = true;
  while (!signal.aborted) {
    const before = performance.now();
    try {
      if (isFirst || !document.hidden) await look();
    } catch (error) {
      if (!signal.aborted) complain(error);
    }
    isFirst = false;
    await wait(Math.max(pause, SHARE * (performance.now() - before)), signal);
  }
}

// A key after the # is sent to no server and no log; it is removed from the address.
function takeKey() {
  const given = /^#key=([^&]+)$/.exec(location.hash);
  if (given) adoptKey(decode(given[1]));
  if (given) history.replaceState(null, '', location.pathname + location.search);
  return !location.hash;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an unknown key or run is reported later
  }
}

// View whose module is loaded when it is first needed; skipped if another view was opened by then.
export function load(module, name) {
  return async (main, signal, ...parts) => {
    const loaded = await import(module);
    if (!signal.aborted) await loaded[name](main, signal, ...parts);
  };
}

// Show the views as the address changes. `views` are pairs of a pattern and a function, which gets
// the place, a signal that ends with the view, and the parts of the address. `findHome` returns the
// first view's address. The returned function shows the present view again.
export function begin(views, findHome, [backHash, backLabel]) {
  function showNothing(words) {
    show(main, make('h1', {}, words), make('p', {}, make('a', { href: backHash }, backLabel)));
    tellShown();
  }
  async function go() {
    leaving.abort();
    leaving = new AbortController();
    const { signal } = leaving;
    if (takeKey()) {
      const home = await findHome();
      if (!location.hash) history.replaceState(null, '', home);
    }
    if (signal.aborted) return;
    complain(null);
    const found = views.map(([pattern, perform]) => [pattern.exec(location.hash), perform]).find(([match]) => match);
    for (const link of document.querySelectorAll('nav a')) {
      const is = location.hash.startsWith(link.getAttribute('href'));
      if (is) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    show(main);
    try {
      if (found) await found[1](main, signal, ...found[0].slice(1).map(decode));
      else showNothing('Page not found');
    } catch (error) {
      if (signal.aborted) return;
      complain(error);
      if (!main.querySelector('h1')?.textContent) showNothing('Not found');
    }
  }
  addEventListener('hashchange', () => go());
  document.getElementById('show-key').addEventListener('click', async () => {
    if (await askForKey('Another key')) await go();
  });
  go();
  return go;
}

document.addEventListener('shown', () => {
  const heading = main.querySelector('h1');
  document.title = `${heading?.textContent ?? 'vibe'} · vibe`;
  heading?.setAttribute('tabindex', '-1');
  heading?.focus({ preventScroll: true });
  scrollTo(0, 0);
});
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
