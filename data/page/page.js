// Show the page that the part of the address after # names.
import { complain, make, say, show } from './elements.js';
import { adoptKey, ask, askForKey, offers, wait } from './service.js';
import { showConversations } from './conversations.js';
import { openCommands } from './commands.js';
import { rememberModel } from './models.js';
import { showApprovals, showRun, showRuns, tellShown } from './runs.js';
import { showTalk } from './talk.js';
import { count } from './words.js';

const LOOK = 2000;
const main = document.getElementById('main');
const PAGES = [
  [/^#\/talk$/, showTalk],
  [/^#\/talk\/([^/]+)$/, showTalk],
  [/^#\/runs$/, showRuns],
  [/^#\/runs\/([^/]+)$/, showRun],
  [/^#\/approvals$/, showApprovals],
  [/^#\/conversations$/, showConversations],
  [/^#\/conversations\/([^/]+)$/, showTalk],
];
let leaving = new AbortController();

// A key after the # is sent to no server and no log; it is removed from the address.
function takeKey() {
  const given = /^#key=([^&]+)$/.exec(location.hash);
  if (given) adoptKey(decode(given[1]));
  if (given) history.replaceState(null, '', location.pathname + location.search);
  return !location.hash;
}

// Where runs can be started, the first page is for talking.
async function goHome() {
  const canStart = await offers('/runs');
  if (!location.hash) history.replaceState(null, '', canStart ? '#/talk' : '#/runs');
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an unknown key or run is reported later
  }
}

async function go() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  if (takeKey()) await goHome();
  if (signal.aborted) return;
  complain(null);
  const found = PAGES.map(([pattern, perform]) => [pattern.exec(location.hash), perform]).find(([match]) => match);
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

function showNothing(words) {
  show(main, make('h1', {}, words), make('p', {}, make('a', { href: '#/runs' }, 'All runs')));
  tellShown();
}

// The badge, on every page.
async function countWaiting() {
  const place = document.getElementById('waiting');
  for (;;) {
    try {
      const { data } = await ask('runs?state=waiting&limit=500');
      const text = String(data.length);
      if (data.length && (place.hidden || place.textContent !== text)) {
        say(`${count(data.length, 'run')} awaiting approval.`);
      }
      place.textContent = text;
      place.setAttribute('aria-label', `${text} waiting`);
      place.hidden = !data.length;
    } catch {
      place.hidden = true; // the page itself shows the error
    }
    await wait(LOOK);
  }
}

addEventListener('hashchange', async () => {
  await go();
});
document.addEventListener('shown', () => {
  const heading = main.querySelector('h1');
  document.title = `${heading?.textContent ?? 'vibe'} · vibe`;
  heading?.setAttribute('tabindex', '-1');
  heading?.focus({ preventScroll: true });
  scrollTo(0, 0);
});
document.getElementById('show-key').addEventListener('click', async () => {
  if (await askForKey('Another key')) await go();
});
document.getElementById('show-commands').addEventListener('click', () => openCommands());
addEventListener('keydown', (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    openCommands();
  }
});
document.addEventListener('model', async ({ detail }) => {
  rememberModel(detail);
  if (location.hash === '#/talk') await go();
});
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
go();
countWaiting();
