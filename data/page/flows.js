// Where a flow stands: its nodes with their visits.
import { make, quote, show } from './elements.js';

export function composeFlow() {
  const nodes = new Map();
  const list = make('ul', { class: 'nodes', 'aria-label': 'Nodes of the flow' });
  const element = make('section', { class: 'flow', 'aria-labelledby': 'flow-title' }, make('h2', { id: 'flow-title' }, 'The flow'), list);

  function tell() {
    show(
      list,
      Array.from(nodes, ([name, { state, visits, conversation }]) =>
        make(
          'li',
          {},
          make('span', { class: `mark ${state === 'done' ? 'ended' : 'working'}` }, state),
          conversation
            ? make('a', { href: `#/conversations/${encodeURIComponent(conversation)}` }, quote(name))
            : quote(name),
          visits > 1 ? make('span', { class: 'facts' }, ` ${visits} visits`) : null,
        ),
      ),
    );
  }

  function hear(event) {
    if (event.type === 'node.started') {
      const before = nodes.get(event.node);
      const conversation = event.purpose ? before?.conversation : event.conversation_id;
      nodes.set(event.node, { state: 'working', visits: event.visit, conversation });
      tell();
    } else if (event.type === 'node.finished') {
      const before = nodes.get(event.node) ?? { visits: event.visit };
      nodes.set(event.node, { ...before, state: 'done' });
      tell();
    }
  }
  return { element, hear };
}
