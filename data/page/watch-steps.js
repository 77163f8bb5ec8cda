// Steps of a run and of the visits within it: read from the daemon, and kept as they change.
import { ask, Refusal } from './service.js';

const PAGE = 500;

// Steps of one conversation's run. `look` reads what has changed since the last time.
function composeSource(id, signal) {
  const steps = new Map();
  let after = 0;
  let looking = null;
  let offset = null; // between the clock of the daemon and that of this page

  async function read() {
    for (;;) {
      const page = await ask(`runs/${encodeURIComponent(id)}/steps?after=${after}&limit=${PAGE}`, { signal });
      for (const step of page.data) steps.set(step.number, step);
      after = page.sequence;
      offset = Date.parse(page.now) - performance.now();
      if (!page.has_more) return;
    }
  }
  return {
    id,
    steps,
    now: () => (offset === null ? Date.now() : offset + performance.now()),
    // Requests for the same steps are one request; a later call sees later steps.
    async look() {
      if (looking) await looking.catch(() => {});
      looking = read();
      await looking;
    },
  };
}

// The steps of a run as a tree. `expand` shows the steps within a visit.
export function composeStepTree(id, signal) {
  const root = composeSource(id, signal);
  const inner = new Map(); // conversation → source
  const open = new Map(); // key of a visit → whether its steps are shown
  let isCrowded = false;

  const isOpen = (key) => open.get(key) ?? !isCrowded;
  const keyOf = (source, step) => `${source.id}.${step.number}`;

  async function lookInside(source, isLive) {
    for (const step of source.steps.values()) {
      if (!step.conversations.length || !isOpen(keyOf(source, step))) continue;
      for (const each of step.conversations) {
        const isNew = !inner.has(each);
        if (isNew) inner.set(each, composeSource(each, signal));
        const child = inner.get(each);
        if (isNew || (isLive && (step.seconds === null || !child.isSettled))) {
          child.isSettled = step.seconds !== null;
          try {
            await child.look();
          } catch (error) {
            if (!(error instanceof Refusal)) throw error; // a visit that has no run yet, or was deleted
          }
        }
        await lookInside(child, isLive);
      }
    }
  }
  const order = (source) =>
    Array.from(source.steps.values()).sort(
      (one, other) => Date.parse(one.started) - Date.parse(other.started) || one.number - other.number,
    );

  // Rows in the order in which they are shown, each with its place in the tree.
  function flatten() {
    const rows = [];
    function add(source, depth, parent) {
      const steps = order(source);
      steps.forEach((step, index) => {
        const key = keyOf(source, step);
        const hasInner = step.conversations.length > 0;
        const row = {
          key,
          step,
          depth,
          parent,
          conversation: source.id,
          position: index + 1,
          size: steps.length,
          isOpen: hasInner ? isOpen(key) : null,
        };
        rows.push(row);
        if (!row.isOpen) return;
        for (const each of step.conversations) if (inner.has(each)) add(inner.get(each), depth + 1, row);
      });
    }
    add(root, 0, null);
    return rows;
  }
  return {
    now: root.now,
    flatten,
    async look() {
      const isFirst = !root.steps.size;
      await root.look();
      if (isFirst) isCrowded = Array.from(root.steps.values()).filter((step) => step.conversations.length).length > 30;
      await lookInside(root, true);
    },
    async toggle(key) {
      open.set(key, !isOpen(key));
      await lookInside(root, false);
    },
  };
}
