// Facts of a step in words: its kind and name, its state, its cost.
import { make, quote } from './elements.js';
import { count, reveal, tellDuration, tellMoment, tellMoney } from './words.js';

const KINDS = {
  model: 'Model request',
  tool: 'Call',
  approval: 'Approval',
  message: 'Message',
  stop: 'Stop',
  visit: 'Visit',
};
export const STATES = {
  working: 'in progress',
  waiting: 'waiting',
  done: '',
  failed: 'failed',
  denied: 'denied',
  broken_off: 'broken off',
};

export function describeName(step, name) {
  if (step.kind === 'message') return 'Message received';
  if (step.kind === 'stop') return 'Stop requested';
  const told = reveal(String(name(step))).replace(/\s+/g, ' ');
  if (step.kind === 'approval') return `Approval of ${told}`;
  return step.kind === 'visit' && step.visit > 1 ? `${told} (visit ${step.visit})` : told;
}

export function describe(step, title, seconds, begin) {
  return [
    step.kind === 'model' || step.kind === 'tool' || step.kind === 'visit' ? `${KINDS[step.kind]} ${title}` : title,
    STATES[step.state],
    seconds ? tellDuration(seconds) : '',
    step.tokens ? count(step.tokens, 'token') : '',
    tellMoney(step.cents),
    `begins after ${tellDuration(begin)}`,
    reveal(step.detail),
  ]
    .filter(Boolean)
    .join(', ');
}

// Facts of a step, for the place beside its message.
export function composeFacts(step, name = (each) => each.name) {
  const facts = [
    step.kind === 'model' || step.kind === 'tool' ? KINDS[step.kind] : '',
    STATES[step.state],
    tellDuration(step.seconds),
    step.tokens ? count(step.tokens, 'token') : '',
    tellMoney(step.cents),
  ].filter(Boolean);
  return [
    make('b', {}, quote(describeName(step, name))),
    ` ${facts.join(' · ')} · `,
    tellMoment(step.started),
    step.detail ? [' · ', quote(reveal(step.detail))] : null,
  ];
}
