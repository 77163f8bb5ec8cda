// Progress of a flow: its diagram, in a sandboxed frame, its nodes, verdict and final answer.
import { make, quote, show } from './elements.js';
import { linkToTalk } from './links.js';
import { ask } from './service.js';
import { composeText } from './texts.js';
import { reveal } from './words.js';

const LOWEST = 200;
const HIGHEST = 560;
const MARKS = { done: 'ended', running: 'working', waiting: 'waiting', failed: 'failed' };

// `choose` receives the node that the user selects in the diagram.
export function composeFlow(path, signal, choose) {
  // A sandboxed frame has no origin: it can read no key and change no page.
  const frame = make('iframe', {
    src: 'diagram.html',
    sandbox: 'allow-scripts',
    title: 'Diagram of the flow',
    class: 'diagram',
  });
  const list = make('ul', { class: 'nodes', 'aria-label': 'Nodes of the flow' });
  const goal = make('p', { class: 'goal', dir: 'auto', hidden: true });
  const result = make('div', { class: 'result', hidden: true });
  const element = make(
    'section',
    { class: 'flow', 'aria-labelledby': 'flow-title' },
    make('h2', { id: 'flow-title' }, 'Flow'),
    goal,
    make('div', { class: 'picture' }, make('div', {}, frame, list), result),
  );
  let outline = null;
  let isReady = false;

  function draw() {
    if (!isReady || !outline) return;
    const nodes = Object.fromEntries(outline.nodes.map((node) => [node.id, `${tellTitle(node)}: ${describe(node)}`]));
    frame.contentWindow.postMessage({ diagram: outline.diagram, nodes }, '*'); // the frame has no origin to name
  }

  addEventListener(
    'message',
    ({ source, data }) => {
      if (source !== frame.contentWindow) return;
      if (data.isReady) isReady = true;
      if (data.isReady) draw();
      if (Number.isFinite(data.height))
        frame.style.height = `${Math.min(HIGHEST, Math.max(LOWEST, data.height + 2))}px`;
      const chosen = outline?.nodes.find((node) => node.id === data.node);
      if (chosen) choose(chosen);
    },
    { signal },
  );

  async function look() {
    const read = await ask(`${path}/flow`, { signal });
    if (outline && JSON.stringify(outline) === JSON.stringify(read)) return;
    outline = read;
    show(list, outline.nodes.map(composeNode));
    goal.textContent = reveal(outline.goal);
    goal.hidden = !outline.goal;
    show(result, composeResult(outline));
    result.hidden = !result.childElementCount;
    draw();
  }
  function name(id) {
    const node = outline?.nodes.find((each) => each.id === id);
    const title = node ? tellTitle(node) : '';
    return title && title !== id ? `${title} (${id})` : id;
  }
  return { element, look, name };
}

// A title in one line; diagrams break lines with an element.
function tellTitle({ title }) {
  return title.replace(/(<br\s*\/?>|\s)+/gi, ' ').trim();
}

// Result of the flow: whether the goal was met, its final response and the conditions of its goal.
function composeResult({ response, verdicts }) {
  const missed = verdicts.filter((each) => !each.is_met).length;
  return [
    verdicts.length
      ? make(
          'p',
          { class: 'verdict' },
          make('span', { class: `mark ${missed ? 'failed' : 'ended'}` }, missed ? '! goal not met' : '✓ goal met'),
        )
      : null,
    response ? make('h3', {}, 'Final response') : null,
    response ? make('div', { class: 'final' }, composeText(response, 'assistant')) : null,
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

function composeNode(node) {
  return make(
    'li',
    {},
    make('span', { class: `mark ${MARKS[node.state] ?? ''}` }, describe(node)),
    node.conversation_id
      ? make('a', { href: linkToTalk(node.conversation_id), id: `node-${node.id}` }, quote(tellTitle(node)))
      : quote(tellTitle(node)),
    node.visits > 1 ? make('span', { class: 'facts' }, `${node.visits} visits`) : null,
  );
}
