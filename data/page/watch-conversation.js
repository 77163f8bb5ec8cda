// The conversation beside the steps of a run: of the run itself, or of a visit of a flow.
import { make, show } from './elements.js';
import { linkToTalk } from './links.js';
import { composeLive } from './live.js';
import { composeMessages, readFirstWords } from './messages.js';
import { Refusal } from './service.js';

// A visit that has just begun has no messages yet.
function ignoreMissing(error) {
  if (!(error instanceof Refusal && error.status === 404)) throw error;
}

// `tell` receives the first words of the conversation, once they are there.
export function composeConversation(signal, tell) {
  const facts = make('p', { class: 'facts about', 'aria-live': 'polite', hidden: true });
  const place = make('div', { class: 'messages' });
  const live = composeLive();
  const element = make(
    'div',
    { class: 'transcript', tabindex: '0', role: 'group', 'aria-label': 'Messages' },
    place,
    live.element,
  );
  const whole = make('div', { class: 'conversation' }, facts, element);
  let shown = '';
  const watched = new MutationObserver(() => {
    const words = readFirstWords(place);
    if (words) (watched.disconnect(), tell(words));
  });
  watched.observe(place, { childList: true });
  let looking = Promise.resolve();

  // Read the messages that are not shown yet, of the conversation that is shown by then.
  function look() {
    looking = looking
      .catch(() => {})
      .then(() => (shown ? composeMessages(place, shown, signal).catch(ignoreMissing) : null));
    return looking;
  }
  async function open(id, about = null) {
    if (about) {
      const told = make('p', {}, about, ' · ', make('a', { href: linkToTalk(id) }, 'open conversation'));
      if (told.textContent !== facts.textContent || id !== shown) show(facts, ...told.childNodes); // it is told once
      facts.hidden = false;
    }
    if (id !== shown) {
      shown = id;
      looking = looking.catch(() => {}).then(() => place.replaceChildren());
      live.settle(true);
    }
    await look();
  }

  // Show the message of a step. A model's answer follows the last message that was sent.
  async function choose(id, step, about, isByKey) {
    await open(id, about);
    const found = Array.from(place.children).find((each) => each.canister.id === step.message);
    const article = step.kind === 'model' ? (found?.nextElementSibling ?? found) : found;
    for (const each of place.querySelectorAll('.chosen')) each.classList.remove('chosen');
    if (!article) return;
    article.classList.add('chosen');
    for (const details of article.querySelectorAll(':scope > details')) details.open = true;
    article.setAttribute('tabindex', '-1');
    reveal(article);
    requestAnimationFrame(() => reveal(article)); // by now, the messages before it have their heights
    if (isByKey) article.focus({ preventScroll: true });
  }

  // Only a conversation with a scroll bar of its own moves; the page stays where it is.
  function reveal(article) {
    if (element.scrollHeight > element.clientHeight + 1) {
      element.scrollTop += article.getBoundingClientRect().top - element.getBoundingClientRect().top - 8;
    } else {
      article.scrollIntoView({ block: 'nearest' });
    }
  }
  return {
    element: whole,
    look,
    show: open,
    choose,
    settle: live.settle,
    feed(id, event) {
      if (id === shown) live.feed(event);
    },
  };
}
