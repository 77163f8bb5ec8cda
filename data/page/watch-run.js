// One run: its state, its steps on a time axis beside the conversation, and all events of its log.
import { complain, make, press, quote, say, show } from './elements.js';
import { linkToRun, linkToTalk } from './links.js';
import { ask, follow, offers, post, wait } from './service.js';
import { composeEvent } from './events.js';
import { composeFlow } from './flows.js';
import { placeApprovals } from './approvals.js';
import { collect, OPEN } from './runs.js';
import { tellShown } from './shell.js';
import { composeFacts } from './step-facts.js';
import { readConditions, writeConditions } from './watch.js';
import { composeConversation } from './watch-conversation.js';
import { composeStepTree } from './watch-steps.js';
import { composeWaterfall } from './waterfall.js';
import { count, markState, tellDuration, tellMoment, tellUse, tellWork, titleOf } from './words.js';

const KEPT = 500; // how many events are shown
const TICK = 1000;
const LEFT = new Set(['due', 'broken_off', 'stopped']); // states in which nothing runs

export async function showRun(main, signal, id) {
  const path = `runs/${encodeURIComponent(id)}`;
  let run = await ask(path, { signal });
  let hasChosen = false; // until then, a flow shows the visit that is worked at
  const performs = await offers('/runs/{id}/fork');
  if (signal.aborted) return;
  const head = make('div', { class: 'summary' });
  const approvals = make('div', { class: 'approvals' });
  const log = make('ol', { class: 'log', 'aria-label': 'Events', tabindex: '0' });
  const heading = make('h1', {}, quote(titleOf(run)));
  const advice = make(
    'p',
    { class: 'advice', hidden: true },
    'It continues where it was started, or with ',
    make('code', {}, `vibe runs resume ${id}`),
    '.',
  );
  const verbs = composeVerbs(path, () => run, look, performs);
  const tree = composeStepTree(id, signal);
  const flow = run.kind === 'flow' ? composeFlow(path, signal, chooseNode) : null;
  const nameStep = (step) => (step.kind === 'visit' && flow ? flow.name(step.name) : step.name);
  const conversation = composeConversation(signal, (words) => flow || nameRun(run.name || words));
  const saying = composeSaying(path, look);
  const waterfall = composeWaterfall({
    name: nameStep,
    choose: chooseRow,
    toggle: async (key) => {
      await tree.toggle(key);
      redraw();
    },
  });
  show(
    main,
    make('div', { class: 'head' }, heading, verbs.element),
    head,
    advice,
    approvals,
    flow?.element,
    make(
      'div',
      { class: 'watching' },
      make(
        'section',
        { class: 'course', 'aria-labelledby': 'steps-title' },
        make('h2', { id: 'steps-title' }, 'Steps'),
        waterfall.element,
      ),
      make(
        'section',
        { class: 'speech', 'aria-labelledby': 'said-title' },
        make('h2', { id: 'said-title' }, 'Conversation'),
        conversation.element,
        saying,
      ),
    ),
    make('details', { class: 'events' }, make('summary', {}, 'Events'), log),
  );
  tellShown();
  signal.addEventListener('abort', () => waterfall.close());

  function redraw() {
    waterfall.update(tree.flatten(), tree.now());
  }

  // --- a step and its message

  async function chooseRow(row, isByKey = false) {
    hasChosen = true;
    const { step } = row;
    writeConditions(new URLSearchParams({ step: row.key }));
    const where = step.conversations[0] ?? row.conversation;
    try {
      await conversation.choose(where, step, composeFacts(step, nameStep), isByKey);
    } catch (error) {
      if (!signal.aborted) complain(error);
    }
  }

  // The latest visit of a node of the diagram.
  function chooseNode(node) {
    const row = tree.flatten().findLast(({ step, depth }) => !depth && step.kind === 'visit' && step.name === node.id);
    if (row) waterfall.show(row.key);
    else say('This node was not reached.');
  }

  // A flow shows the current visit, until the user selects a step.
  async function followFlow() {
    const asking = tree.flatten().findLast(({ step }) => step.kind === 'visit' && step.conversations.length);
    if (asking && !hasChosen)
      await conversation.show(asking.step.conversations[0], [make('b', {}, quote(nameStep(asking.step)))]);
    else await conversation.look();
  }

  // --- state

  async function look() {
    const before = run.label;
    run = await ask(path, { signal });
    if (run.label !== before) say(`The run: ${run.label}.`);
    show(head, composeSummary(run));
    const [, , { data }] = await Promise.all([flow?.look(), tree.look(), ask(`${path}/approvals`, { signal })]);
    redraw();
    const fresh = placeApprovals(approvals, id, data);
    if (fresh) say(`${count(data.length, 'call')} awaiting approval.`);
    advice.hidden = performs || !LEFT.has(run.state);
    verbs.update();
    saying.hidden = !OPEN.has(run.state) && Boolean(flow); // an ended flow takes no messages
    complain(null);
    const isIdle = run.state !== 'working';
    (flow ? followFlow() : conversation.show(id))
      .then(() => conversation.settle(isIdle))
      .catch((error) => signal.aborted || complain(error));
    nameRun(run.name);
  }
  function nameRun(name) {
    if (name) show(heading, quote(name));
    document.title = `${heading.textContent} · vibe`;
  }

  // Steps in progress grow; those within visits are read again, as not every daemon tells of them.
  async function tick() {
    for (let number = 1; !signal.aborted; number += 1) {
      await wait(TICK, signal);
      if (signal.aborted || document.hidden || !OPEN.has(run.state)) continue;
      try {
        if (flow && run.state === 'working' && number % 3 === 0) await tree.look();
      } catch {
        continue; // the stream of events shows the error
      }
      redraw();
      head.querySelector('.worked').textContent = tellDuration(tellWork(run));
    }
  }

  const soon = collect(look, signal);
  await look();
  const wanted = readConditions().get('step');
  if (wanted) waterfall.show(wanted);
  tick();
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
    }
    if (flow) feedVisit(event);
    else conversation.feed(id, event);
    if (event.id || (event.type === 'visit.event' && !/^content\./.test(event.data.event.type))) soon();
  }

  // An event within a visit, for the conversation of that visit.
  function feedVisit({ type, data }) {
    if (type !== 'visit.event') return;
    const { node, visit, branch } = data.visits[0];
    const row = tree
      .flatten()
      .find(
        ({ step, depth }) =>
          !depth && step.kind === 'visit' && step.name === node && step.visit === visit && step.branch === branch,
      );
    const { event } = data;
    if (row) conversation.feed(row.step.conversations[0], { type: NAMES[event.type] ?? event.type, data: { event } });
  }
}

const NAMES = {
  'generation.started': 'step.started',
  'generation.finished': 'step.completed',
  'generation.failed': 'step.failed',
};

function composeSummary(run) {
  const facts = [
    ['State', [markState(run), run.detail ? quote(` ${run.detail}`) : null]],
    run.model ? ['Model', quote(run.model)] : null,
    ['Time', make('span', { class: 'worked' }, tellDuration(tellWork(run)))],
    ['Used', tellUse(run).join(' · ')],
    ['Started', tellMoment(run.created)],
    ['Last event', tellMoment(run.updated)],
    run.tags.length ? ['Labels', run.tags.map((tag) => make('span', { class: 'tag' }, quote(tag)))] : null,
    run.subject ? ['For', quote(run.subject)] : null,
    run.origin ? ['Forked from', make('a', { href: linkToRun(run.origin) }, run.origin)] : null,
    ['Run', make('code', {}, run.id)],
  ];
  return make(
    'dl',
    {},
    facts.filter(Boolean).map(([term, told]) => make('div', {}, make('dt', {}, term), make('dd', {}, told))),
  );
}

function composeVerbs(path, read, look, performs) {
  async function perform(word, done) {
    try {
      const told = await post(`${path}/${word}`);
      say(done);
      if (word === 'fork') location.hash = linkToRun(told.id);
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
      link.href = linkToTalk(run.id);
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
