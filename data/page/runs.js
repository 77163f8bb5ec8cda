// Calls that await approval in all runs, and what the pages of runs share.
import { complain, make, show } from './elements.js';
import { ask } from './service.js';
import { composeApproval, identify } from './approvals.js';
import { keep, tellShown } from './shell.js';

export const OPEN = new Set(['queued', 'working', 'waiting', 'due', 'broken_off']);

export async function showApprovals(main, signal) {
  const list = make('div', { class: 'approvals' });
  const none = make('p', { class: 'none', hidden: true }, 'No calls await approval.');
  show(main, make('h1', {}, 'Approvals'), list, none);
  tellShown();
  const placed = new Map();
  await keep(async () => {
    const { data } = await ask('runs?state=waiting&limit=100', { signal });
    const found = await Promise.all(
      data.map(async (run) => {
        const path = `runs/${encodeURIComponent(run.id)}/approvals`;
        return (await ask(path, { signal })).data.map((each) => [run.id, each]);
      }),
    );
    complain(null);
    const open = new Set();
    for (const [runId, waiting] of found.flat()) {
      open.add(identify(waiting));
      const before = placed.get(identify(waiting));
      if (before && !before.dataset.settled) continue;
      before?.remove();
      const section = composeApproval(runId, waiting, { link: true });
      placed.set(identify(waiting), section);
      list.append(section);
    }
    for (const [name, section] of placed) if (!open.has(name)) section.settleElsewhere();
    none.hidden = list.children.length > 0;
  }, signal);
}

// Refresh once for many events.
export function collect(look, signal) {
  let timer = 0;
  let busy = false;
  return function soon() {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      if (busy) return soon();
      busy = true;
      try {
        if (!signal.aborted) await look();
      } catch (error) {
        if (!signal.aborted) complain(error);
      } finally {
        busy = false;
      }
    }, 150);
  };
}
