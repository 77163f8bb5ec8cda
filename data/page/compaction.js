// Compaction of a conversation: the summary in a fork, the place where a parent continues, pins, and the command.
import { askUser, loadStyle, make, press } from './elements.js';
import { linkToTalk } from './links.js';
import { ask } from './service.js';

const KEPT = 4; // turns that a compaction keeps unless the conversation says otherwise

// Make an article of a summary the divider between earlier messages and those that stay.
export function markSummary(article, { summarizes }) {
  loadStyle('compaction.css');
  article.classList.add('divider');
  article.setAttribute('aria-label', 'Summary of earlier messages');
  const heading = article.querySelector('h2, h3');
  if (heading) heading.textContent = 'Summary';
  const files = summarizes.files?.length ?? 0;
  article.prepend(
    make(
      'p',
      { class: 'earlier' },
      make(
        'span',
        {},
        `A summary stands for earlier messages${files ? `, and names ${files === 1 ? 'a file' : `${files} files`}` : ''}.`,
      ),
      ' ',
      make('a', { href: linkToTalk(summarizes.conversation) }, 'Read the whole'),
    ),
  );
}

// Where a conversation continues whose run has moved to a compacted fork.
export function tellContinued(run) {
  if (!run?.continued_in) return null;
  return [' · ', make('a', { href: linkToTalk(run.continued_in) }, 'Continues after a summary')];
}

// Return the pins of a conversation: `adopt` takes them from its metadata, `compose` returns a message's button.
export function composePins(path, attempt, say) {
  loadStyle('compaction.css');
  let pinned = [];
  const mark = (button, index, isPinned) => {
    button.textContent = isPinned ? 'Unpin' : 'Pin';
    button.setAttribute('aria-pressed', String(isPinned));
    button.setAttribute('aria-label', `Pin message ${index + 1}`);
  };
  async function toggle(id, index) {
    await attempt(async () => {
      const { metadata } = await ask(`${path}?limit=1`); // others may have pinned messages
      const isPinned = metadata.pinned.includes(id);
      const wanted = isPinned ? metadata.pinned.filter((each) => each !== id) : [...metadata.pinned, id];
      const told = await ask(path, { method: 'PATCH', body: { pinned: wanted } });
      pinned = told.metadata.pinned;
      const button = document.getElementById(`message-${index}`)?.querySelector('.pin'); // may be new by now
      if (button) mark(button, index, !isPinned);
      say(isPinned ? 'Unpinned.' : 'Pinned: every compaction keeps this message.');
    });
  }
  return {
    // Messages may be drawn before the metadata are known.
    adopt(metadata, place) {
      pinned = metadata.pinned ?? [];
      for (const article of place.querySelectorAll('article:has(.pin)')) {
        mark(article.querySelector('.pin'), Number(article.id.split('-')[1]), pinned.includes(article.canister.id));
      }
    },
    compose(canister, index) {
      if (canister.summarizes) return null;
      const button = press('Pin', () => toggle(canister.id, index), { class: 'quiet pin' });
      mark(button, index, pinned.includes(canister.id));
      return button;
    },
  };
}

// Ask how many turns stay word for word; resolve to whether the conversation is to be compacted.
export async function askToCompact(path) {
  const { metadata } = await ask(`${path}?limit=1`);
  const before = String(metadata.keep ?? KEPT);
  const answer = await askUser(
    'Continue after a summary',
    [['keep', 'Turns that stay word for word', { type: 'number', min: 0, max: 1000, required: true, value: before }]],
    'Compact',
  );
  if (!answer) return false;
  if (answer.keep !== before) await ask(path, { method: 'PATCH', body: { keep: Number(answer.keep) } });
  return true;
}
