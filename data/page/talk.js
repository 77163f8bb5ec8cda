// A conversation to read and to continue.
import { askUser, complain, composeCopy, loadStyle, make, press, quote, save, say, show } from './elements.js';
import { linkToRun, linkToTalk } from './links.js';
import { ask, fetchDocument, follow, post, Refusal } from './service.js';
import { placeApprovals } from './approvals.js';
import { encode } from './attachments.js';
import { composeBranches, linkToComparison } from './branches.js';
import { askToCompact, composePins, tellContinued } from './compaction.js';
import { composeComposer } from './composer.js';
import { composeLive } from './live.js';
import { readText, tellFirstWords } from './messages.js';
import { composeChoices, readOffers, recallChoice } from './models.js';
import { collect, OPEN } from './runs.js';
import { tellShown } from './shell.js';
import { composeHistory } from './talk-history.js';
import { composeAdvice, composeFrame, composeRecent, exportChoice, showNew } from './talk-new.js';
import { composeText } from './texts.js';
import { count, markState } from './words.js';

const FORMS = [['markdown', 'Markdown'], ['json', 'JSON'], ['html', 'HTML']];
const MEDIA = new Set(['image', 'audio', 'video', 'file']);
const FIRST = 8; // messages in which the user's first words are searched
const NEAR = 160; // pixels from the end at which new text is followed

// The page is drawn at once; models and tools, which the daemon may have to ask for, are filled in.
export function showTalk(main, signal, id = '', at = undefined) {
  loadStyle('talk.css');
  return id ? showThread(main, signal, id, at) : showNew(main, signal);
}

// --- one conversation -------------------------------------------------------------------------

async function showThread(main, signal, id, at) {
  const path = `conversations/${encodeURIComponent(id)}`;
  const heading = make('h1', {});
  const facts = make('p', { class: 'facts' });
  const history = composeHistory(id, signal, { verbs, mark: (index) => branches.composeSwitch(index) });
  const pending = make('div', { class: 'messages pending' });
  const approvals = make('div', { class: 'approvals' });
  const live = composeLive();
  const notice = make('div', { class: 'ending', hidden: true });
  const recent = composeRecent(signal, id);
  const branches = composeBranches(id, signal, { link: linkToTalk, onChange: history.update });
  const choice = recallChoice();
  let offers; // null if this page cannot start runs
  let run = null;
  let name = '';
  let isWatched = false;
  let isBusy = false;
  let adopted = ''; // the model of a run that names none

  const pins = composePins(path, attempt, say);

  const isActive = () => Boolean(run) && OPEN.has(run.state);

  async function attempt(perform) {
    try {
      complain(null);
      return (await perform()) ?? true;
    } catch (error) {
      if (!signal.aborted) complain(error);
      return false;
    }
  }

  // Forks and runs are requested one at a time: a double click makes one. Until another page is open, or it failed.
  async function attemptOnce(perform) {
    if (isBusy) return;
    isBusy = true;
    const here = location.hash;
    const focused = document.activeElement;
    const buttons = main.querySelectorAll('.verbs button, .editing button, .ending button, #fork');
    for (const each of buttons) each.disabled = true;
    await attempt(perform);
    if (location.hash !== here) return;
    isBusy = false;
    for (const each of buttons) each.disabled = false;
    if (document.activeElement === document.body) focused.focus({ preventScroll: true });
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

  // --- what is there

  async function look() {
    const isNear = innerHeight + scrollY > document.documentElement.scrollHeight - NEAR;
    const before = run;
    run = await findRun(id, signal);
    const { page, added } = await history.look();
    for (const each of added) if (each.role === 'user') pending.firstChild?.remove();
    pins.adopt(page.metadata, history.element);
    live.settle(!isActive() || run.state === 'waiting');
    name = page.metadata.name ?? '';
    show(heading, quote(name || (await findFirstWords()) || id));
    document.title = `${heading.textContent} · vibe`;
    show(facts, composeFacts(page));
    await lookAtRun(before);
    if (isNear && before) await history.end();
    return page;
  }

  // Title of a conversation without a name; instructions may come before the user's first message.
  async function findFirstWords() {
    for (let index = 0; index < Math.min(FIRST, history.count()); index += 1) {
      const canister = await history.access(index);
      if (canister?.role === 'user') return tellFirstWords(canister);
    }
    return '';
  }

  function composeFacts({ count: number, metadata, notices }) {
    const parent = metadata.parent?.identity;
    return [
      count(number, 'message'),
      parent ? [' · forked from ', make('a', { href: linkToTalk(parent) }, 'another conversation')] : null,
      tellContinued(run),
      run ? [' · ', make('a', { href: linkToRun(id) }, 'Run')] : null,
      notices.map((each) => make('span', { class: 'warning' }, quote(each))),
    ];
  }

  async function lookAtRun(before) {
    composer?.setBusy(isActive());
    if (!run) return;
    if (before && before.label !== run.label)
      say(run.state === 'ended' ? 'The answer is complete.' : `The run: ${run.label}.`, true);
    const { data } =
      run.waiting || approvals.childElementCount
        ? await ask(`runs/${encodeURIComponent(id)}/approvals`, { signal })
        : { data: [] };
    placeApprovals(approvals, id, data);
    showEnding();
    if (run.state === 'ended' && before && OPEN.has(before.state)) {
      recent.look().catch(() => {});
      branches.look().catch(() => {});
    }
  }

  function showEnding() {
    if (!run) return;
    const isBad = run.tone === 'failed' || run.state === 'stopped' || run.state === 'broken_off';
    notice.hidden = !isBad;
    if (isBad)
      show(
        notice,
        markState(run),
        run.detail ? quote(` ${run.detail} `) : ' ',
        offers ? press('Try again', () => retry(), { id: 'again' }) : null,
      );
  }

  async function watch() {
    if (isWatched || !run) return;
    isWatched = true;
    const soon = collect(look, signal);
    try {
      for await (const event of follow(`runs/${encodeURIComponent(id)}/events`, run.sequence, signal)) {
        if (event.type === 'run.deleted') {
          location.hash = '#/talk';
          return;
        }
        if (event.type === 'run.continued' && event.data.event.continues === id) {
          say('Continues after a summary of the oldest messages.');
          goTo(event.data.event.conversation);
          return;
        }
        const isNear = innerHeight + scrollY > document.documentElement.scrollHeight - NEAR;
        live.feed(event);
        if (event.id) soon();
        else if (isNear) scrollTo(0, document.documentElement.scrollHeight);
      }
    } catch (error) {
      if (!signal.aborted) complain(error);
    } finally {
      isWatched = false;
    }
  }

  // --- what one can do

  async function send(content) {
    const place = make('div', { class: 'message user' }, composeText(tellParts(content)));
    pending.append(place);
    await history.end();
    if (await attempt(() => deliver(content))) {
      refresh();
      return id;
    }
    place.remove();
    return '';
  }

  // Show what a request has changed. An error here does not undo the request.
  async function refresh() {
    await attempt(look);
    await watch();
  }

  // A run that has the same model and tools takes the message; otherwise the conversation gets
  // another run.
  async function deliver(content) {
    if (run && !run.continued_in && (isActive() || !offers || isSame(run.spec, choice, adopted))) {
      run = await post(`runs/${encodeURIComponent(id)}/messages`, { content });
    } else {
      run = await start({ conversation: id, input: { role: 'user', content } });
      adopted = choice.model;
    }
  }

  // Limits, queue, priority and channel are those of the run before.
  function start(body) {
    return post('runs', { ...omitChoice(run?.spec), ...exportChoice(choice), ...body });
  }

  // Ask again for an answer to the last message before a place.
  async function retry(index = history.count()) {
    await attemptOnce(async () => {
      let asked = index - 1;
      while (asked >= 0 && (await history.access(asked)).role !== 'user') asked -= 1;
      const isLast = asked === history.count() - 1;
      const where = isLast ? id : await fork(asked + 1);
      const told = await start({ conversation: where });
      if (isLast) {
        run = told;
        await attempt(look);
        watch();
      } else {
        goTo(where);
      }
    });
  }

  async function fork(index) {
    const told = await ask(`${path}/fork`, { method: 'POST', body: index === undefined ? {} : { from_index: index } });
    return told.id;
  }
  const goToFork = (index) =>
    attemptOnce(async () => {
      goTo(await fork(index));
      say('Forked.');
    });

  // A field for each text, so that texts and media stay in their order.
  function edit(article, index) {
    const contents = article.canister.content.filter((each) => each.type !== 'cache');
    const fields = contents.map((each) => (each.type === 'text' ? composeField(each.text ?? '') : null));
    const form = make(
      'form',
      { class: 'editing', on: { submit: (event) => (event.preventDefault(), finish()) } },
      contents.map(
        (each, at) => fields[at] ?? make('p', { class: 'facts' }, `[${each.type}] `, quote(each.name ?? '')),
      ),
      make(
        'div',
        { class: 'actions' },
        make('button', { type: 'submit', class: 'main' }, 'Send as a fork'),
        press('Cancel', leave),
      ),
    );
    article.classList.add('edited');
    article.append(form);
    fields.findLast(Boolean).focus();
    function leave() {
      form.remove();
      article.classList.remove('edited');
    }
    const finish = () =>
      attemptOnce(async () => {
        const parts = contents.map((each, at) => (fields[at] ? { type: 'text', text: fields[at].value } : each));
        const kept = parts.filter((each) => each.type !== 'text' || each.text.trim());
        if (!kept.some((each) => each.type === 'text')) return;
        const content = await Promise.all(kept.map((each) => (each.type === 'text' ? each : readAgain(each))));
        const where = await fork(index);
        await start({
          conversation: where,
          input: { role: 'user', content: content.length > 1 ? content : content[0].text },
        });
        goTo(where);
      });
  }

  async function readAgain({ type, content_id: contentId, mime_type: kind, name: title }) {
    const { blob } = await fetchDocument(`${path}/contents/${encodeURIComponent(contentId)}`);
    return { type, data: await encode(blob), mime_type: kind, ...(title ? { name: title } : {}) };
  }

  function verbs(canister, index) {
    const text = readText(canister);
    const tell = (label, word, perform) =>
      press(label, perform, { class: `quiet ${word}`, 'aria-label': `${label} message ${index + 1}` });
    return [
      text && ['user', 'assistant'].includes(canister.role)
        ? composeCopy(() => text, { 'aria-label': `Copy message ${index + 1}` })
        : null,
      offers && canister.role === 'user' && text && isSendable(canister)
        ? tell('Edit', 'edit', (event) => edit(event.target.closest('article'), index))
        : null,
      offers && canister.role === 'assistant' ? tell('Retry', 'retry', () => retry(index)) : null,
      pins.compose(canister, index),
      press('Fork', () => goToFork(index + 1), {
        class: 'quiet fork',
        'aria-label': `Fork after message ${index + 1}`,
      }),
    ].filter(Boolean);
  }

  const rename = () =>
    attempt(async () => {
      const answer = await askUser(
        'Rename the conversation',
        [['name', 'Name', { value: name, dir: 'auto' }]],
        'Rename',
      );
      if (!answer) return;
      await ask(path, { method: 'PATCH', body: { name: answer.name } });
      await look();
      say('Renamed.');
    });
  const compare = () =>
    attempt(async () => {
      const { chooseOther } = await import('./talk-compare.js');
      const other = await chooseOther(id);
      if (other) location.hash = linkToComparison(id, other);
    });
  const compact = () =>
    attempt(async () => {
      if (!(await askToCompact(path))) return;
      run = await start({ conversation: id, compact: true });
      say('Summarizing…');
      await refresh();
    });
  const write = () =>
    attempt(async () => {
      const written = await fetchDocument(`${path}/export?format=${form.value}`);
      save(written.blob, written.name);
      say(`Saved as ${written.name}.`);
    });
  const halt = () =>
    attempt(async () => {
      await post(`runs/${encodeURIComponent(id)}/stop`);
      await look();
    });

  // --- the page

  const composer = composeComposer({ label: 'Message', send, stop: halt, signal });
  const form = make(
    'select',
    { id: 'form', 'aria-label': 'Export format' },
    FORMS.map(([word, text]) => make('option', { value: word }, text)),
  );
  const actions = make(
    'div',
    { class: 'actions' },
    press('Rename', rename, { id: 'rename' }),
    press('Fork', () => goToFork(), { id: 'fork' }),
    press('Compare', compare, { id: 'compare' }),
    press('Compact', compact, { id: 'compact', hidden: true }),
    make('span', { class: 'joined' }, press('Export as', write, { id: 'export' }), form),
  );
  const foot = make('div', { class: 'foot' });
  show(
    main,
    composeFrame(
      recent,
      branches,
      make('div', { class: 'head' }, make('div', {}, heading, facts), actions),
      history.element,
      pending,
      approvals,
      live.element,
      notice,
      foot,
    ),
  );
  const page = await look();
  if (signal.aborted) return; // its answer came just before the next view
  adoptSpec(choice, run?.spec, page.metadata.model);
  adopted = choice.model;
  if (run?.kind === 'flow')
    show(
      foot,
      make('p', { class: 'hint' }, make('a', { href: linkToRun(id) }, 'This conversation is a flow: see its run.')),
    );
  else show(foot, composer.element);
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
    if (run?.kind !== 'flow' && !isActive()) show(foot, composeAdvice());
    return;
  }
  actions.querySelector('#compact').hidden = run?.kind === 'flow';
  const chips = composeChoices(offers, choice);
  show(composer.chips, chips.model, chips.tools);
  history.update();
  showEnding();
}

function composeField(text) {
  const field = make('textarea', {
    rows: Math.min(12, text.split('\n').length + 1),
    dir: 'auto',
    'aria-label': 'Edit the message',
  });
  field.value = text;
  return field;
}

// Return whether the daemon takes all contents of a message again: texts, and media that it has stored.
function isSendable({ content }) {
  return content.every(
    ({ type, content_id: contentId }) => type === 'text' || type === 'cache' || (MEDIA.has(type) && contentId),
  );
}

function tellParts(content) {
  if (typeof content === 'string') return content;
  return content.map((each) => (each.type === 'text' ? each.text : `[${each.name}]`)).join('\n');
}

// Continue with the model and the tools of the run, unless others are chosen.
function adoptSpec(choice, spec, model) {
  if (spec?.model || model) choice.model = spec?.model || model;
  if (spec) choice.ensembles = spec.ensembles ?? [];
}

function omitChoice({ model, ensembles, skills, task, variables, compact, ...rest } = {}) {
  return rest;
}

function isSame(spec, choice, adopted) {
  return (spec.model || adopted) === choice.model && String(spec.ensembles ?? []) === String(choice.ensembles);
}

async function findRun(id, signal) {
  try {
    return await ask(`runs/${encodeURIComponent(id)}`, { signal });
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return null;
    throw error;
  }
}
