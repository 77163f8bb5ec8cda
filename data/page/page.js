// Page for conversations and runs: its views, its commands, and the badge of waiting runs.
import { say } from './elements.js';
import { ask, offers, wait } from './service.js';
import { showConversations } from './conversations.js';
import { openCommands } from './commands.js';
import { rememberModel } from './models.js';
import { showApprovals } from './runs.js';
import { begin, load } from './shell.js';
import { showTalk } from './talk.js';
import { count } from './words.js';

const LOOK = 2000;
const VIEWS = [
  [/^#\/talk$/, showTalk],
  [/^#\/talk\/([^/]+)$/, showTalk],
  [/^#\/talk\/([^/]+)\/(\d{1,7})$/, showTalk],
  [/^#\/compare\/([^/]+)\/([^/]+)$/, load('./talk-compare.js', 'showComparison')],
  [/^#\/runs(?:\?.*)?$/, load('./watch-list.js', 'showRuns')],
  [/^#\/runs\/([^/?]+)(?:\?.*)?$/, load('./watch-run.js', 'showRun')],
  [/^#\/approvals$/, showApprovals],
  [/^#\/conversations$/, showConversations],
  [/^#\/memory$/, load('./memory.js', 'showMemory')],
  [/^#\/memory-new$/, load('./memory.js', 'showNewNote')],
  [/^#\/memory\/([^/]+)$/, load('./memory.js', 'showMemory')],
  [/^#\/conversations\/([^/]+)$/, showTalk],
];

// Where runs can be started, the first page is for talking.
async function findHome() {
  return (await offers('/runs')) ? '#/talk' : '#/runs';
}

// The badge, on every page.
async function countWaiting() {
  const place = document.getElementById('waiting');
  let isFirst = true; // then the number is seen anyway
  for (;;) {
    try {
      const { data } = await ask('runs?state=waiting&limit=500');
      const text = String(data.length);
      if (data.length && (place.hidden || place.textContent !== text)) {
        say(`${count(data.length, 'run')} awaiting approval.`, isFirst);
      }
      place.textContent = text;
      place.setAttribute('aria-label', `${text} waiting`);
      place.hidden = !data.length;
      isFirst = false;
    } catch {
      place.hidden = true; // the page itself shows the error
    }
    await wait(LOOK);
  }
}

// The daemon serves notes only if it was told to.
async function offerMemory() {
  document.getElementById('memory').hidden = !(await offers('/notes', 'get'));
}

const go = begin(VIEWS, findHome, ['#/runs', 'All runs']);
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
countWaiting();
offerMemory();
document.addEventListener('key', offerMemory);
