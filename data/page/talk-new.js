// A new conversation, and the frame that it shares with those that exist.
import { complain, make, quote, show } from './elements.js';
import { composeComposer } from './composer.js';
import { linkToTalk } from './links.js';
import { composeChoices, readOffers, recallChoice } from './models.js';
import { ask, post } from './service.js';
import { tellShown } from './shell.js';
import { composeInstructions } from './skills.js';
import { titleOf } from './words.js';

export const RECENT = 30;

export async function showNew(main, signal) {
  const choice = recallChoice();
  const heading = make('h1', {}, 'Start a conversation');
  const recent = composeRecent(signal);
  const notices = make('div', {});
  const instructions = composeInstructions();
  const composer = composeComposer({ label: 'Message', send, stop: () => {}, signal, extra: instructions.element });

  async function send(content) {
    const { system, skills } = instructions.read();
    const input = [...(system ? [{ role: 'supervisor', content: system }] : []), { role: 'user', content }];
    try {
      const run = await post('runs', { ...exportChoice(choice), ...(skills.length ? { skills } : {}), input });
      complain(null);
      instructions.forget();
      if (!signal.aborted) location.hash = linkToTalk(run.id);
      return run.id;
    } catch (error) {
      complain(error);
      return '';
    }
  }
  const welcome = make('div', { class: 'welcome' }, heading, notices, composer.element);
  show(main, composeFrame(recent, null, welcome));
  composer.adopt('');
  tellShown();
  composer.focus();
  const offers = await readOffers();
  if (signal.aborted) return;
  if (!offers) {
    show(welcome, make('h1', {}, 'Talk'), composeAdvice());
    tellShown();
    return;
  }
  const chips = composeChoices(offers, choice);
  show(composer.chips, chips.model, chips.tools);
  show(notices, offers.notices.map((each) => make('p', { class: 'warning' }, quote(each))));
}

export function exportChoice({ model, ensembles }) {
  return { ...(model ? { model } : {}), ...(ensembles.length ? { ensembles } : {}) };
}

// How to get a page that can ask models.
export function composeAdvice() {
  return make(
    'div',
    { class: 'hint' },
    make(
      'p',
      {},
      'This page shows what is on this machine, but cannot ask models. To talk here, start the agents daemon and open its page:',
    ),
    make('pre', { dir: 'ltr' }, 'vibe serve gateway\nvibe serve agents --gateway http://127.0.0.1:8000'),
  );
}

export function composeFrame(recent, branches, ...parts) {
  return make('div', { class: 'talk' }, recent.element, branches?.element, make('div', { class: 'thread' }, ...parts));
}

// The latest conversations, beside the open one.
export function composeRecent(signal, current = '') {
  const list = make('ul', {});
  const element = make(
    'aside',
    { class: 'recent', 'aria-label': 'Recent conversations' },
    make('a', { class: 'button', href: '#/talk' }, '+ New conversation'),
    list,
  );
  async function look() {
    const { data } = await ask(`conversations?limit=${RECENT}`, { signal });
    const rows = data.map((row) =>
      make(
        'li',
        {},
        make(
          'a',
          { href: linkToTalk(row.id), id: `recent-${row.id}`, 'aria-current': row.id === current ? 'page' : null },
          quote(titleOf(row)),
        ),
      ),
    );
    show(list, rows);
  }
  look().catch((error) => signal.aborted || complain(error));
  return { element, look };
}
