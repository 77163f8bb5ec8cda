// Progress of a flow: its diagram, in a sandboxed frame, and its nodes.
import { make, quote, show } from './elements.js';
import { ask } from './service.js';
import { reveal } from './words.js';

const LOWEST = 120;
const HIGHEST = 640;
const MARKS = { done: 'ended', running: 'working', waiting: 'waiting', failed: 'failed' };

export function composeFlow(path, signal) {
  // A sandboxed frame has no origin: it can read no key and change no page.
  const frame = make('iframe', { src: 'diagram.html', sandbox: 'allow-scripts', title: 'Diagram of the flow', class: 'diagram' });
  const list = make('ul', { class: 'nodes', 'aria-label': 'Nodes of the flow' });
  const result = make('div', { class: 'result' });
  const element = make('section', { class: 'flow', 'aria-labelledby': 'flow-title' }, make('h2', { id: 'flow-title' }, 'Flow'), frame, list, result);
  let outline = null;
  let isReady = false;

  function draw() {
    if (!isReady || !outline) return;
    const nodes = Object.fromEntries(outline.nodes.map((node) => [node.id, `${node.title}: ${describe(node)}`]));
    frame.contentWindow.postMessage({ diagram: outline.diagram, nodes }, '*'); // the frame has no origin to name
  }

  addEventListener(
    'message',
    ({ source, data }) => {
      if (source !== frame.contentWindow) return;
      if (data.isReady) isReady = true;
      if (data.isReady) draw();
      if (Number.isFinite(data.height)) frame.style.height = `${Math.min(HIGHEST, Math.max(LOWEST, data.height + 2))}px`;
      const chosen = outline?.nodes.find((node) => node.id === data.node);
      if (chosen?.conversation_id) location.hash = linkTo(chosen);
    },
    { signal },
  );

  async function look() {
    const read = await ask(`${path}/flow`, { signal });
    if (outline && JSON.stringify(outline) === JSON.stringify(read)) return;
    outline = read;
    show(list, outline.nodes.map(composeNode));
    show(result, composeResult(outline));
    draw();
  }
  function name(id) {
    const title = outline?.nodes.find((node) => node.id === id)?.title.replace(/(<br\s*\/?>|\s)+/g, ' ').trim();
    return title && title !== id ? `${title} (${id})` : id;
  }
  return { element, look, name };
}

// Result of the flow: its final response and the conditions of its goal.
function composeResult({ response, verdicts }) {
  return [
    response ? make('h3', {}, 'Final response') : null,
    response ? make('div', { class: 'text final', dir: 'auto' }, reveal(response)) : null,
    verdicts.length ? make('h3', {}, 'Conditions of the goal') : null,
    verdicts.length ? make('ul', { class: 'verdicts' }, verdicts.map(composeVerdict)) : null,
  ];
}

function composeVerdict({ description, evidence, is_met: isMet }) {
  return make(
    'li',
    {},
    make('span', { class: `mark ${isMet ? 'ended' : 'failed'}` }, isMet ? '✓ met' : '! not met'),
    quote(description, 'b'),
    make('span', { class: 'facts', dir: 'auto' }, reveal(String(evidence ?? ''))),
  );
}

function describe(node) {
  return node.state === 'unreached' ? 'not reached' : node.state;
}

function linkTo(node) {
  return `#/talk/${encodeURIComponent(node.conversation_id)}`;
}

function composeNode(node) {
  return make(
    'li',
    {},
    make('span', { class: `mark ${MARKS[node.state] ?? ''}` }, describe(node)),
    node.conversation_id ? make('a', { href: linkTo(node), id: `node-${node.id}` }, quote(node.title)) : quote(node.title),
    node.visits > 1 ? make('span', { class: 'facts' }, `${node.visits} visits`) : null,
  );
}
