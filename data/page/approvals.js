// Calls that await approval: shown in full, answered with a click.
import { complain, make, press, quote, sanitize, say } from './elements.js';
import { linkToRun } from './links.js';
import { ask, follow, post, Refusal } from './service.js';
import { layOut, reveal, tellMoment } from './words.js';

const DONE = { allow: 'Allowed', deny: 'Denied', edit: 'Allowed with other arguments' };
const BACK = 2000; // number of events to search for the answer

export function identify(waiting) {
  return `${waiting.conversation_id}-${waiting.key}`;
}

export function composeApproval(runId, waiting, { link = false } = {}) {
  const { request } = waiting;
  const id = `approval-${identify(waiting)}`;
  const shown = make('pre', { class: 'arguments', dir: 'ltr', id: `${id}-arguments` }, layOut(request.arguments));
  const changed = make('textarea', {
    id: `${id}-changed`,
    rows: 6,
    spellcheck: 'false',
    dir: 'ltr',
    hidden: true,
    'aria-label': 'Other arguments, as JSON',
  });
  const reason = make('input', { id: `${id}-reason`, autocomplete: 'off' });
  const scope = make(
    'select',
    { id: `${id}-scope` },
    make('option', { value: 'once' }, 'this call only'),
    make('option', { value: 'call' }, 'identical calls in this run'),
    make('option', { value: 'always' }, 'all calls of this tool in this run'),
  );
  const waits = make('span', {}, ' awaits approval');
  const outcome = make('p', { class: 'outcome', id: `${id}-outcome`, tabindex: '-1', hidden: true });
  const save = press('Allow this instead', () => answer('edit'), { hidden: true, class: 'main', id: `${id}-save` });
  const edit = press('Edit…', () => {
    changed.value = layOut(request.arguments);
    shown.hidden = true;
    scope.disabled = true; // an edit applies to one call
    changed.hidden = save.hidden = false;
    edit.hidden = allow.hidden = true;
    changed.focus();
  }, { id: `${id}-edit` });
  // Screen readers read the arguments with the button.
  const allow = press('Allow', () => answer('allow'), {
    class: 'main',
    id: `${id}-allow`,
    'aria-describedby': shown.id,
  });
  const refuse = press('Deny', () => answer('deny'), { class: 'danger', id: `${id}-refuse` });
  const actions = make('div', { class: 'actions' }, allow, save, refuse, edit);
  const answering = make(
    'div',
    { class: 'answering' },
    actions,
    make('label', { for: reason.id }, 'Reason (for the model)', reason),
    make('label', { for: scope.id }, 'Applies to', scope),
  );

  async function answer(decision) {
    const said = { digest: request.digest, key: waiting.key, decision };
    if (reason.value.trim()) said.reason = reason.value;
    if (decision === 'edit') said.arguments = changed.value;
    else said.scope = scope.value;
    for (const each of actions.children) each.disabled = true;
    try {
      await post(`runs/${encodeURIComponent(runId)}/approvals`, said);
      settle(`${DONE[decision]}: ${request.name}.`, 'won');
    } catch (error) {
      if (error instanceof Refusal && error.status === 409) {
        settle(`Too late: ${await findWinner(runId, waiting)}`, 'lost');
        return;
      }
      complain(error);
      for (const each of actions.children) each.disabled = false;
    }
  }

  function settle(text, kind) {
    complain(null);
    section.dataset.settled = kind;
    outcome.textContent = sanitize(text);
    waits.textContent = ''; // no longer
    outcome.hidden = false;
    const had = answering.contains(document.activeElement) || document.activeElement === document.body;
    answering.remove();
    if (had) outcome.focus();
    say(text);
  }

  const section = make(
    'section',
    { class: 'approval', id, 'aria-labelledby': `${id}-title` },
    make('h2', { id: `${id}-title` }, make('code', { dir: 'ltr' }, reveal(request.name)), waits),
    request.in_doubt
      ? make(
          'p',
          { class: 'warning' },
          'It was started before, and its effect is unknown. Allowing it may execute it twice.',
        )
      : null,
    request.description ? make('p', {}, quote(request.description)) : null,
    make(
      'p',
      { class: 'facts' },
      `Effect: ${request.effect} · requested `,
      tellMoment(waiting.timestamp),
      link ? ' · ' : null,
      link ? make('a', { href: linkToRun(runId) }, 'run') : null,
    ),
    shown,
    changed,
    answering,
    outcome,
  );
  section.settleElsewhere = async () => {
    if (!section.dataset.settled && !actions.children[0].disabled) {
      section.dataset.settled = 'lost';
      settle(await findWinner(runId, waiting), 'lost');
    }
  };
  return section;
}

// Find in the log who answered first.
async function findWinner(runId, waiting) {
  for (const place of new Set([waiting.conversation_id, runId])) {
    try {
      const path = `runs/${encodeURIComponent(place)}`;
      const { sequence } = await ask(path);
      const aborter = new AbortController();
      let found = null;
      const events = follow(`${path}/events`, Math.max(0, sequence - BACK), aborter.signal);
      for await (const event of events) {
        const told = event.data.event;
        if (event.type === 'approval.answered' && told.key === waiting.key && told.digest === waiting.request.digest) {
          found = told;
        }
        if (Number(event.id) >= sequence) break;
      }
      aborter.abort();
      if (found) {
        const who = found.subject ? ` by ${found.subject}` : ' by another user';
        return `${DONE[found.decision] ?? found.decision}${who}: ${waiting.request.name}.`;
      }
    } catch (error) {
      if (!(error instanceof Refusal)) break;
    }
  }
  return `${waiting.request.name} no longer awaits approval: it was answered, or the run was stopped.`;
}

// Show the calls that await approval; keep sections that are being answered.
export function placeApprovals(place, runId, waiting, options) {
  const wanted = new Map(waiting.map((each) => [`approval-${identify(each)}`, each]));
  for (const section of Array.from(place.children)) {
    if (wanted.has(section.id) && !section.dataset.settled) wanted.delete(section.id);
    else if (!wanted.has(section.id) && !section.dataset.settled) section.settleElsewhere?.();
    else if (wanted.has(section.id)) section.remove(); // the approval is requested again
  }
  for (const each of wanted.values()) place.append(composeApproval(runId, each, options));
  return wanted.size;
}
