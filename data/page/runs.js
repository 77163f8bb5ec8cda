// The list of runs, the approvals, and the page of one run.
import { complain, make, press, quote, sanitize, say, show } from './elements.js';
import { ask, follow, offers, post, wait } from './service.js';
import { composeEvent } from './events.js';
import { composeMessages, readFirstWords } from './messages.js';
import { composeFlow } from './flows.js';
import { composeApproval, identify, placeApprovals } from './approvals.js';
import { tellShown } from './shell.js';
import { compare, count, markState, nameState, tellMoment, tellUse, titleOf } from './words.js';

const LOOK = 1500;
const PAGE = 50;
const MAX_RUNS = 500;
const KEPT = 500; // how many events are shown
const STATES = ['working', 'waiting', 'queued', 'due', 'broken_off', 'stopped', 'ended'];
const LEFT = new Set(['due', 'broken_off', 'stopped']); // states in which nothing runs
export { tellShown };
export const OPEN = new Set(['queued', 'working', 'waiting', 'due', 'broken_off']);

// First words of unnamed runs by id, with one request for all.
async function readWords(runs, known, signal) {
  if (runs.every((run) => run.name || known.has(run.id))) return;
  const { data } = await ask('conversations?limit=500', { signal });
  for (const row of data) known.set(row.id, row.name || row.first_words);
  for (const run of runs) if (!known.has(run.id)) known.set(run.id, '');
}

export async function showRuns(main, signal) {
  const words = new Map();
  let shown = null;
  let limit = PAGE;
  const filter = make(
    'select',
    { id: 'state', on: { change: () => look() } },
    make('option', { value: '' }, 'All'),
    STATES.map((each) => make('option', { value: each }, nameState(each))),
  );
  const list = make('ul', { class: 'rows', 'aria-label': 'Runs' });
  const more = press('Show more', () => ((limit = Math.min(MAX_RUNS, limit + PAGE)), look()), { hidden: true });
  const rest = make('p', { class: 'none', hidden: true }, `These are the latest ${MAX_RUNS} runs. To see others, choose a state or use “vibe runs list”.`);
  const none = make('p', { class: 'none', hidden: true });
  show(
    main,
    make('div', { class: 'head' }, make('h1', {}, 'Runs'), make('label', { for: 'state' }, 'State', filter)),
    list,
    none,
    more,
    rest,
  );
  tellShown();
  async function look() {
    const state = filter.value ? `&state=${filter.value}` : '';
    const page = await ask(`runs?limit=${limit}${state}`, { signal });
    complain(null);
    if (compare(page, shown)) return;
    await readWords(page.data, words, signal);
    shown = page;
    show(list, page.data.map((run) => composeRow({ ...run, first_words: words.get(run.id) })));
    none.textContent = filter.value ? 'No run has this state.' : 'There are no runs yet.';
    none.hidden = page.data.length > 0;
    more.hidden = !page.has_more || limit === MAX_RUNS;
    rest.hidden = !page.has_more || limit < MAX_RUNS;
  }
  await keep(look, signal);
}

async function keep(look, signal) {
  while (!signal.aborted) {
    try {
      await look();
    } catch (error) {
      if (!signal.aborted) complain(error);
    }
    await wait(LOOK, signal);
  }
}

function composeRow(run) {
  return make(
    'li',
    {},
    markState(run),
    make('a', { href: `#/runs/${encodeURIComponent(run.id)}`, id: `run-${run.id}`, class: 'title' }, quote(titleOf(run))),
    make('span', { class: 'facts' }, tellMoment(run.updated), ' · ', run.model ? quote(run.model) : run.kind),
    make('span', { class: 'facts' }, tellUse(run).join(' · ')),
    run.detail ? make('span', { class: 'facts detail' }, quote(run.detail)) : null,
  );
}

export async function showApprovals(main, signal) {
  const list = make('div', { class: 'approvals' });
  const none = make('p', { class: 'none', hidden: true }, 'No calls await approval.');
  show(main, make('h1', {}, 'Approvals'), list, none);
  tellShown();
  const placed = new Map();
  await keep(async () => {
    const { data } = await ask('runs?state=waiting&limit=100', { signal });
    const found = await Promise.all(
      data.map(async (run) => {
        const path = `runs/${encodeURIComponent(run.id)}/approvals`;
        return (await ask(path, { signal })).data.map((each) => [run.id, each]);
      }),
    );
    complain(null);
    const open = new Set();
    for (const [runId, waiting] of found.flat()) {
      open.add(identify(waiting));
      const before = placed.get(identify(waiting));
      if (before && !before.dataset.settled) continue;
      before?.remove();
      const section = composeApproval(runId, waiting, { link: true });
      placed.set(identify(waiting), section);
      list.append(section);
    }
    for (const [name, section] of placed) if (!open.has(name)) section.settleElsewhere();
    none.hidden = list.children.length > 0;
  }, signal);
}

export async function showRun(main, signal, id) {
  const path = `runs/${encodeURIComponent(id)}`;
  let run = await ask(path, { signal });
  const head = make('div', { class: 'summary' });
  const approvals = make('div', { class: 'approvals' });
  const flow = run.kind === 'flow' ? composeFlow(path, signal) : null;
  const messages = make('div', { class: 'messages' });
  const writing = make('div', { class: 'writing', hidden: true, dir: 'auto', role: 'group', 'aria-label': 'Answer in progress' });
  const log = make('ol', { class: 'log', 'aria-label': 'Events', tabindex: '0' });
  const heading = make('h1', {}, quote(titleOf(run)));
  const advice = make('p', { class: 'advice', hidden: true }, 'It continues where it was started, or with ', make('code', {}, `vibe runs resume ${id}`), '.');
  const performs = await offers('/runs/{id}/fork');
  const verbs = composeVerbs(path, () => run, look, performs);
  const saying = composeSaying(path, look);
  const said = make('section', { 'aria-labelledby': 'said-title' }, make('h2', { id: 'said-title' }, 'Conversation'), messages, writing, saying);
  show(
    main,
    make('div', { class: 'head' }, heading, verbs.element),
    head,
    advice,
    approvals,
    flow?.element,
    make(
      'div',
      { class: 'columns' },
      said,
      make('section', { 'aria-labelledby': 'log-title' }, make('h2', { id: 'log-title' }, 'Events'), log),
    ),
  );
  tellShown();

  async function look() {
    const before = run.label;
    run = await ask(path, { signal });
    if (run.label !== before) say(`The run: ${run.label}.`);
    if (flow) await flow.look();
    else await composeMessages(messages, id, signal);
    show(heading, quote(titleOf({ ...run, first_words: readFirstWords(messages) })));
    show(head, composeSummary(run));
    advice.hidden = performs || !LEFT.has(run.state);
    verbs.update();
    said.hidden = Boolean(flow) && !OPEN.has(run.state); // its visits hold the messages, and an ended flow takes none
    const { data } = await ask(`${path}/approvals`, { signal });
    const fresh = placeApprovals(approvals, id, data);
    if (fresh) say(`${count(data.length, 'call')} awaiting approval.`);
    complain(null);
  }

  const soon = collect(look, signal);
  await look();
  document.title = `${heading.textContent} · vibe`;
  const after = Math.max(0, run.sequence - KEPT);
  for await (const event of follow(`${path}/events`, after, signal)) {
    if (event.type === 'run.deleted') {
      say('The run was deleted.');
      location.hash = '#/runs';
      return;
    }
    if (event.id) {
      log.append(composeEvent(event, flow?.name));
      if (log.children.length > KEPT) log.firstChild.remove();
      if (/^step\.(completed|failed|started)$/.test(event.type)) show(writing);
    } else if (event.type === 'content.delta' && event.data.event.kind === 'text') {
      writing.append(sanitize(event.data.event.text));
    }
    writing.hidden = !writing.textContent;
    if (event.id) soon();
  }
}

// Refresh once for many events.
export function collect(look, signal) {
  let timer = 0;
  let busy = false;
  return function soon() {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      if (busy) return soon();
      busy = true;
      try {
        if (!signal.aborted) await look();
      } catch (error) {
        if (!signal.aborted) complain(error);
      } finally {
        busy = false;
      }
    }, 150);
  };
}

function composeSummary(run) {
  const facts = [
    ['State', [markState(run), run.detail ? quote(` ${run.detail}`) : null]],
    ['Model', run.model ? quote(run.model) : 'not set'],
    ['Used', tellUse(run).join(' · ')],
    ['Last event', tellMoment(run.updated)],
    run.subject ? ['For', quote(run.subject)] : null,
    run.origin ? ['Forked from', make('a', { href: `#/runs/${encodeURIComponent(run.origin)}` }, run.origin)] : null,
    ['Run', make('code', {}, run.id)],
  ];
  return make('dl', {}, facts.filter(Boolean).map(([term, told]) => make('div', {}, make('dt', {}, term), make('dd', {}, told))));
}

function composeVerbs(path, read, look, performs) {
  async function perform(word, done) {
    try {
      const told = await post(`${path}/${word}`);
      say(done);
      if (word === 'fork') location.hash = `#/runs/${encodeURIComponent(told.id)}`;
      else await look();
    } catch (error) {
      complain(error);
    }
  }
  const stop = press('Stop', () => perform('stop', 'Stop requested.'), { class: 'danger', id: 'stop' });
  const detach = press('Detach', () => perform('detach', 'The run continues without watchers.'), { id: 'detach' });
  const resume = press('Resume', () => perform('resume', 'Resume requested.'), { id: 'resume' });
  const fork = press('Fork', () => perform('fork', 'Forked.'), { id: 'fork' });
  const link = make('a', { class: 'button' }, 'Conversation');
  return {
    element: make('div', { class: 'actions verbs' }, stop, detach, resume, fork, link),
    update() {
      const run = read();
      stop.hidden = !OPEN.has(run.state);
      detach.hidden = !run.is_attached || !OPEN.has(run.state);
      resume.hidden = !performs || (OPEN.has(run.state) && run.state !== 'broken_off');
      fork.hidden = !performs || run.kind === 'flow'; // flows are forked at a node
      link.href = `#/talk/${encodeURIComponent(run.id)}`;
    },
  };
}

function composeSaying(path, look) {
  const words = make('textarea', { id: 'words', rows: 2, dir: 'auto', required: true });
  async function send(event) {
    event.preventDefault();
    try {
      await post(`${path}/messages`, { content: words.value });
      words.value = '';
      say('Sent; the model reads it at its next request.');
      await look();
    } catch (error) {
      complain(error);
    }
  }
  return make(
    'form',
    { class: 'saying', on: { submit: send } },
    make('label', { for: 'words' }, 'Message to the run', words),
    make('button', { type: 'submit' }, 'Send'),
  );
}
