// Ctrl-K: go to a page, a conversation or a run, or choose a model.
import { complain } from './elements.js';
import { linkToRun, linkToTalk } from './links.js';
import { readOffers } from './models.js';
import { choose } from './palette.js';
import { ask } from './service.js';
import { titleOf } from './words.js';

const RECENT = 12;
const FOUND = 20;
const PAGES = [
  ['New conversation', '#/talk'],
  ['Runs', '#/runs'],
  ['Approvals', '#/approvals'],
  ['Conversations', '#/conversations'],
  ['Memory', '#/memory'],
];

export async function openCommands() {
  try {
    const [offers, conversations, runs] = await Promise.all([
      readOffers(),
      ask(`conversations?limit=${RECENT}`),
      ask(`runs?limit=${RECENT}`),
    ]);
    const titles = new Map(conversations.data.map((row) => [row.id, titleOf(row)]));
    const chosen = await choose(
      'Go to',
      [
        ...PAGES.map(([label, hash]) => ({ label, hash, group: 'Pages' })),
        ...listActions(),
        ...conversations.data.map((row) => ({
          label: titleOf(row),
          hash: linkToTalk(row.id),
          group: 'Conversations',
          facts: row.model ? [row.model] : [],
        })),
        ...runs.data.map((run) => ({
          label: run.name || titles.get(run.id) || run.id,
          hash: linkToRun(run.id),
          group: 'Runs',
          facts: [run.label],
        })),
        ...(offers?.data ?? []).map((offer) => ({
          label: offer.id,
          model: offer.id,
          group: 'New conversation with',
          facts: [],
        })),
      ],
      { find, placeholder: 'Go to a page, conversation, run or model' },
    );
    if (chosen?.model) document.dispatchEvent(new CustomEvent('model', { detail: chosen.model }));
    if (chosen?.button) chosen.button.click();
    else if (chosen) location.hash = chosen.hash ?? '#/talk';
  } catch (error) {
    complain(error);
  }
}

// Commands for the open view.
function listActions() {
  const buttons = Array.from(document.querySelectorAll('main .head .actions button:not([disabled])')).filter(
    (each) => each.offsetParent,
  );
  return buttons.map((button) => ({ label: button.textContent, button, group: 'Open here', facts: [] }));
}

// Messages that contain the words.
async function find(words) {
  const { data } = await ask(`conversations?${new URLSearchParams({ query: words, limit: String(FOUND) })}`);
  return data.map((hit) => ({
    label: hit.name || hit.snippet,
    hash: linkToTalk(hit.id, hit.index),
    group: 'Messages',
    facts: [hit.role],
    detail: hit.name ? hit.snippet : '',
  }));
}
