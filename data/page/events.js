// One line per event of a run's log, with details to expand.
import { make, quote } from './elements.js';
import { count, layOut, reveal, tellMoment, tellMoney } from './words.js';

const TELL = {
  'run.requested': (event) => ['Queued', event.subject],
  'run.started': (event) => ['Started', event.model],
  'run.suspended': () => ['Awaits approval'],
  'run.completed': (event) => ['Completed', [event.limit || event.reason, event.detail].filter(Boolean).join(': ')],
  'run.resumed': (event) => ['Resume requested', event.subject],
  'run.detached': (event) => ['Detached', event.subject],
  'run.stop_requested': (event) => ['Stop requested', [event.subject, event.reason].filter(Boolean).join(': ')],
  'run.retried': (event) => ['Retry scheduled', event.detail],
  'run.continued': (event) => ['Continues in a fork', event.conversation],
  'step.started': (event) => ['Model request', event.model],
  'step.completed': (event) => ['Model answered', describeStep(event)],
  'step.failed': (event) => ['Model request failed', describeError(event.error)],
  'approval.requested': (event) => ['Approval requested', event.name, event.arguments],
  'approval.answered': (event) => [
    { allow: 'Allowed', deny: 'Denied', edit: 'Allowed with other arguments' }[event.decision] ?? event.decision,
    [event.name, event.subject && `by ${event.subject}`, event.reason].filter(Boolean).join(' · '),
    event.arguments,
  ],
  'approval.refused': (event) => ['Late answer ignored', event.subject],
  'tool.started': (event) => ['Call started', event.name, event.arguments],
  'tool.completed': (event) => [
    event.is_fault ? 'Call failed' : 'Call completed',
    `${event.name} · ${event.seconds.toFixed(1)} s`,
    (event.result.content ?? []).map((each) => each.text ?? `[${each.type}]`).join('\n'),
  ],
  'message.received': (event) => [
    'Message received',
    (event.canister.content ?? []).map((each) => each.text ?? '').join('\n'),
  ],
  'flow.started': () => ['Flow started'],
  'node.started': (event, name) => [
    'Started',
    [name(event.node), `visit ${event.visit}`, event.purpose].filter(Boolean).join(' · '),
  ],
  'node.finished': (event, name) => [
    'Completed',
    [name(event.node), event.category, event.detail].filter(Boolean).join(' · '),
    event.response,
  ],
  'flow.ended': (event) => ['Flow ended', [describeEnd(event), event.detail].filter(Boolean).join(': ')],
};
const HIDDEN = new Set(['run.state']);

// `name` returns the label of a node.
export function composeEvent({ id, type, data }, name = (node) => node) {
  const tell = TELL[type];
  let told = [type];
  try {
    told = tell ? tell(data.event, name) : told;
  } catch {
    told = [type]; // an event of another version: show its type
  }
  const [words, detail, whole] = told;
  return make(
    'li',
    { class: `event ${type.replace(/[^a-z_]/g, '-')}`, value: id, hidden: HIDDEN.has(type) },
    make('span', { class: 'facts' }, data.timestamp ? tellMoment(data.timestamp) : ''),
    make('span', {}, make('b', {}, words), detail ? ' ' : null, detail ? quote(reveal(detail)) : null),
    whole
      ? make(
          'details',
          {},
          make('summary', {}, 'Details'),
          make('pre', { dir: 'auto' }, /^[{[]/.test(whole) ? layOut(whole) : reveal(whole)),
        )
      : null,
  );
}

function describeEnd(event) {
  if (event.reason === 'ended' && typeof event.goal_met === 'boolean')
    return event.goal_met ? 'goal met' : 'goal not met';
  return event.limit || event.reason;
}

function describeStep(event) {
  const { usage } = event;
  const tokens = usage
    ? (usage.total_input_tokens ?? usage.input_tokens ?? 0) + (usage.total_output_tokens ?? usage.output_tokens ?? 0)
    : 0;
  return [tokens ? count(tokens, 'token') : '', tellMoney(event.cents), `${event.seconds.toFixed(1)} s`]
    .filter(Boolean)
    .join(' · ');
}

function describeError(error) {
  if (!error) return 'cut off';
  return error.message ?? error.detail ?? error.facts?.detail ?? error.word ?? '';
}
