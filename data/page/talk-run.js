// The run of a conversation: followed while it works, continued by the next message, and shown below the messages.
import { complain, make, press, quote, say, show } from './elements.js';
import { placeApprovals } from './approvals.js';
import { linkToTalk } from './links.js';
import { recallChoice } from './models.js';
import { OPEN } from './runs.js';
import { ask, follow, post, Refusal } from './service.js';
import { exportChoice } from './talk-new.js';
import { markState } from './words.js';

// `choice` has the model and the tools of the next run.
export function composeRun(id, signal) {
  const path = `runs/${encodeURIComponent(id)}`;
  const choice = recallChoice();
  let current = null; // null if the conversation never had a run
  let adopted = ''; // the model of a run that names none
  let isWatched = false;

  const isActive = () => Boolean(current) && OPEN.has(current.state);

  async function look() {
    current = await findRun(path, signal);
  }

  // Report each event to `hear`. A run that continues after a summary is followed to its new conversation.
  async function watch(hear) {
    if (isWatched || !current) return;
    isWatched = true;
    try {
      for await (const event of follow(`${path}/events`, current.sequence, signal)) {
        if (event.type === 'run.deleted') {
          location.hash = '#/talk';
          return;
        }
        if (event.type === 'run.continued' && event.data.event.continues === id) {
          say('Continues after a summary of the oldest messages.');
          if (!signal.aborted) location.hash = linkToTalk(event.data.event.conversation);
          return;
        }
        hear(event);
      }
    } catch (error) {
      if (!signal.aborted) complain(error);
    } finally {
      isWatched = false;
    }
  }

  // Continue with the model and the tools of the run, unless others are chosen.
  function adopt(model) {
    const spec = current?.spec;
    if (spec?.model || model) choice.model = spec?.model || model;
    if (spec) choice.ensembles = spec.ensembles ?? [];
    adopted = choice.model;
  }

  // Start a run of this conversation, or of a fork of it. Limits, queue, priority and channel are those of
  // the run before.
  async function start(body) {
    const started = await post('runs', { ...omitChoice(current?.spec), ...exportChoice(choice), ...body });
    if (body.conversation === id) current = started;
  }

  // A run that has the same model and tools takes the message; otherwise the conversation gets
  // another run, if this page can start one.
  async function deliver(content, canStart) {
    const isOpen = current && !current.continued_in;
    if (isOpen && (isActive() || !canStart || hasSameChoice(current.spec, choice, adopted))) {
      current = await post(`${path}/messages`, { content });
    } else {
      await start({ conversation: id, input: { role: 'user', content } });
      adopted = choice.model;
    }
  }

  return {
    path,
    choice,
    get current() {
      return current;
    },
    isActive,
    look,
    watch,
    adopt,
    start,
    deliver,
  };
}

// What a run shows below the messages: the calls that await approval, and why it broke off.
export function composeRunState(run, id, signal, { retry }) {
  const approvals = make('div', { class: 'approvals' });
  const ending = make('div', { class: 'ending', hidden: true });

  async function look(before) {
    const { current } = run;
    if (before && before.label !== current.label)
      say(current.state === 'ended' ? 'The answer is complete.' : `The run: ${current.label}.`, true);
    const { data } =
      current.waiting || approvals.childElementCount ? await ask(`${run.path}/approvals`, { signal }) : { data: [] };
    placeApprovals(approvals, id, data);
  }

  function showEnding(canStart) {
    const { current } = run;
    if (!current) return;
    const isBad = current.tone === 'failed' || current.state === 'stopped' || current.state === 'broken_off';
    ending.hidden = !isBad;
    if (isBad)
      show(
        ending,
        markState(current),
        current.detail ? quote(` ${current.detail} `) : ' ',
        canStart ? press('Try again', () => retry(), { id: 'again' }) : null,
      );
  }
  return { approvals, ending, look, showEnding };
}

function omitChoice({ model, ensembles, skills, task, variables, compact, ...rest } = {}) {
  return rest;
}

function hasSameChoice(spec, choice, adopted) {
  return (spec.model || adopted) === choice.model && String(spec.ensembles ?? []) === String(choice.ensembles);
}

async function findRun(path, signal) {
  try {
    return await ask(path, { signal });
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return null;
    throw error;
  }
}
