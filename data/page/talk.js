// A conversation to read and to continue.
import { complain, composeCopy, loadStyle, make, press, quote, say, show } from './elements.js';
import { linkToRun, linkToTalk } from './links.js';
import { post } from './service.js';
import { composeBranches } from './branches.js';
import { composePins, tellContinued } from './compaction.js';
import { composeComposer } from './composer.js';
import { composeLive } from './live.js';
import { readText, tellFirstWords } from './messages.js';
import { composeChoices, readOffers } from './models.js';
import { collect, OPEN } from './runs.js';
import { tellShown } from './shell.js';
import { composeTalkActions } from './talk-actions.js';
import { composeForking, isSendable } from './talk-forking.js';
import { composeHistory } from './talk-history.js';
import { composeAdvice, composeFrame, composeRecent, showNew } from './talk-new.js';
import { composeRun, composeRunState } from './talk-run.js';
import { composeText } from './texts.js';
import { count } from './words.js';

const FIRST = 8; // messages in which the user's first words are searched
const NEAR = 160; // pixels from the end at which new text is followed

// The page is drawn at once; models and tools, which the daemon may have to ask for, are filled in.
export function showTalk(main, signal, id = '', at = undefined) {
  loadStyle('talk.css');
  return id ? showThread(main, signal, id, at) : showNew(main, signal);
}

async function showThread(main, signal, id, at) {
  const path = `conversations/${encodeURIComponent(id)}`;
  const run = composeRun(id, signal);
  const heading = make('h1', {});
  const facts = make('p', { class: 'facts' });
  const verbs = (canister, index) => composeVerbs(canister, index, { canStart: Boolean(offers), forking, pins });
  const history = composeHistory(id, signal, { verbs, mark: (index) => branches.composeSwitch(index) });
  const pending = make('div', { class: 'messages pending' });
  const live = composeLive();
  const recent = composeRecent(signal, id);
  const branches = composeBranches(id, signal, { link: linkToTalk, onChange: history.update });
  const forking = composeForking(main, { id, path, run, history, attempt, goTo, refresh });
  const state = composeRunState(run, id, signal, forking);
  const pins = composePins(path, attempt, say);
  const composer = composeComposer({ label: 'Message', send, stop: halt, signal });
  const fork = () => forking.goToFork();
  const actions = composeTalkActions({ id, path, attempt, look, fork, compact, readName: () => name });
  const foot = make('div', { class: 'foot' });
  let offers; // null if this page cannot start runs
  let name = '';

  async function attempt(perform) {
    try {
      complain(null);
      return (await perform()) ?? true;
    } catch (error) {
      if (!signal.aborted) complain(error);
      return false;
    }
  }
  async function goToMessage(index) {
    const article = await history.show(index);
    article?.setAttribute('tabindex', '-1');
    article?.focus({ preventScroll: true });
    article?.scrollIntoView({ block: 'center' });
  }
  function goTo(where) {
    if (!signal.aborted) location.hash = linkToTalk(where);
  }

  // --- state

  async function look() {
    const isNear = isNearEnd();
    const before = run.current;
    await run.look();
    const { page, added } = await history.look();
    for (const each of added) if (each.role === 'user') pending.firstChild?.remove();
    pins.adopt(page.metadata, history.element);
    live.settle(!run.isActive() || run.current.state === 'waiting');
    name = page.metadata.name ?? '';
    show(heading, quote(name || (await findFirstWords(history)) || id));
    document.title = `${heading.textContent} · vibe`;
    show(facts, composeFacts(page, run.current, id));
    composer.setBusy(run.isActive());
    if (run.current) await lookAtRun(before);
    if (isNear && before) await history.end();
    return page;
  }

  async function lookAtRun(before) {
    await state.look(before);
    state.showEnding(Boolean(offers));
    if (run.current.state === 'ended' && before && OPEN.has(before.state)) {
      recent.look().catch(() => {});
      branches.look().catch(() => {});
    }
  }

  function watch() {
    const soon = collect(look, signal);
    return run.watch((event) => {
      const isNear = isNearEnd();
      live.feed(event);
      if (event.id) soon();
      else if (isNear) scrollTo(0, document.documentElement.scrollHeight);
    });
  }

  // Show what a request has changed. An error here does not undo the request.
  async function refresh() {
    await attempt(look);
    watch();
  }

  // --- actions

  async function send(content) {
    const place = make('div', { class: 'message user' }, composeText(tellParts(content)));
    pending.append(place);
    await history.end();
    if (await attempt(() => run.deliver(content, Boolean(offers)))) {
      refresh();
      return id;
    }
    place.remove();
    return '';
  }
  async function compact() {
    await run.start({ conversation: id, compact: true });
    say('Summarizing…');
    await refresh();
  }
  function halt() {
    return attempt(async () => {
      await post(`${run.path}/stop`);
      await look();
    });
  }

  // --- the page

  show(
    main,
    composeFrame(
      recent,
      branches,
      make('div', { class: 'head' }, make('div', {}, heading, facts), actions),
      history.element,
      pending,
      state.approvals,
      live.element,
      state.ending,
      foot,
    ),
  );
  const page = await look();
  if (signal.aborted) return; // its answer came just before the next view
  run.adopt(page.metadata.model);
  const isFlow = () => run.current?.kind === 'flow';
  show(foot, isFlow() ? composeFlowHint(id) : composer.element);
  composer.adopt(id);
  tellShown();
  if (foot.contains(composer.element)) composer.focus();
  if (at === undefined) await history.end();
  else await goToMessage(Number(at));
  if (signal.aborted) return;
  watch();
  branches.look().catch((error) => signal.aborted || complain(error));
  offers = await readOffers();
  if (signal.aborted) return;
  if (!offers) {
    if (!isFlow() && !run.isActive()) show(foot, composeAdvice());
    return;
  }
  actions.querySelector('#compact').hidden = isFlow();
  const chips = composeChoices(offers, run.choice);
  show(composer.chips, chips.model, chips.tools);
  history.update();
  state.showEnding(true);
}

function isNearEnd() {
  return innerHeight + scrollY > document.documentElement.scrollHeight - NEAR;
}

// Title of a conversation without a name; instructions may come before the user's first message.
async function findFirstWords(history) {
  for (let index = 0; index < Math.min(FIRST, history.count()); index += 1) {
    const canister = await history.access(index);
    if (canister?.role === 'user') return tellFirstWords(canister);
  }
  return '';
}

function composeFacts({ count: number, metadata, notices }, run, id) {
  const parent = metadata.parent?.identity;
  return [
    count(number, 'message'),
    parent ? [' · forked from ', make('a', { href: linkToTalk(parent) }, 'another conversation')] : null,
    tellContinued(run),
    run ? [' · ', make('a', { href: linkToRun(id) }, 'Run')] : null,
    notices.map((each) => make('span', { class: 'warning' }, quote(each))),
  ];
}

function composeFlowHint(id) {
  return make('p', { class: 'hint' }, make('a', { href: linkToRun(id) }, 'This conversation is a flow: see its run.'));
}

// The buttons of a message.
function composeVerbs(canister, index, { canStart, forking, pins }) {
  const text = readText(canister);
  const tell = (label, word, perform) =>
    press(label, perform, { class: `quiet ${word}`, 'aria-label': `${label} message ${index + 1}` });
  return [
    text && ['user', 'assistant'].includes(canister.role)
      ? composeCopy(() => text, { 'aria-label': `Copy message ${index + 1}` })
      : null,
    canStart && canister.role === 'user' && text && isSendable(canister)
      ? tell('Edit', 'edit', (event) => forking.edit(event.target.closest('article'), index))
      : null,
    canStart && canister.role === 'assistant' ? tell('Retry', 'retry', () => forking.retry(index)) : null,
    pins.compose(canister, index),
    press('Fork', () => forking.goToFork(index + 1), {
      class: 'quiet fork',
      'aria-label': `Fork after message ${index + 1}`,
    }),
  ].filter(Boolean);
}

function tellParts(content) {
  if (typeof content === 'string') return content;
  return content.map((each) => (each.type === 'text' ? each.text : `[${each.name}]`)).join('\n');
}
