// Messages of a conversation. Only those near the window are in the document: a conversation of
// thousands of messages scrolls like a short one.
import { make } from './elements.js';
import { loadMarkdown } from './markdown.js';
import { composeMessage } from './messages.js';
import { ask } from './service.js';

const PAGE = 100; // messages of one request
const SLICE = 8; // milliseconds of drawing in one frame
const AHEAD = 1500; // pixels around the window that are drawn
const KEPT = 4000; // pixels around the window after which messages are removed
const GUESS = 150; // height of a message that was never drawn

// `verbs` returns the buttons of a message, `mark` further elements for its foot.
export function composeHistory(id, signal, { verbs, mark }) {
  const above = make('div', { class: 'gap', 'aria-hidden': 'true' });
  const below = make('div', { class: 'gap', 'aria-hidden': 'true' });
  const element = make('div', { class: 'messages drawn', role: 'feed', 'aria-label': 'Messages' }, above, below);
  const known = []; // by index; a conversation only grows
  const heights = [];
  const edited = new Map(); // messages that are being edited, while they are not near the window
  const loading = new Map();
  let total = 0;
  let told = 0; // messages that a look has returned
  let first = 0; // the messages from `first` on, before `last`, are in the document
  let last = 0;
  let isDue = false;

  async function read(after) {
    if (!loading.has(after)) {
      const path = `conversations/${encodeURIComponent(id)}?limit=${PAGE}&after=${after}`;
      loading.set(after, ask(path, { signal }).then(keep).finally(() => loading.delete(after)));
    }
    return loading.get(after);
    function keep(page) {
      page.data.forEach((canister, at) => (known[after + at] = canister));
      total = Math.max(total, page.count);
      return page;
    }
  }

  // Return a message; it is read if it is not known yet.
  async function access(index) {
    if (!known[index]) await read(Math.max(0, Math.min(index - (index % PAGE), total - 1)));
    return known[index];
  }

  // Read new messages. Return the conversation, and the added messages.
  async function look() {
    const before = total;
    const [page] = await Promise.all([read(before), before ? null : loadMarkdown().catch(() => {})]);
    if (!before && page.has_more) await read(Math.max(PAGE, total - PAGE));
    const added = told ? known.slice(told, total).filter(Boolean) : [];
    if (told && last === told) {
      while (last < total && known[last]) append();
      measureGaps();
    }
    if (added.length) for (const each of articles()) each.setAttribute('aria-setsize', String(total));
    told = total;
    return { page, added };
  }

  // --- drawing

  function draw(index) {
    const article = edited.get(index) ?? composeMessage(known[index], index, { id, signal, verbs, level: 2 });
    edited.delete(index);
    article.setAttribute('aria-posinset', String(index + 1));
    article.setAttribute('aria-setsize', String(total));
    decorate(article, index);
    return article;
  }
  function decorate(article, index) {
    const foot = article.querySelector('footer');
    foot.querySelector('.switch')?.remove();
    const shown = mark(index);
    if (shown) foot.prepend(shown);
  }
  function append() {
    below.before(draw(last));
    last += 1;
  }
  function prepend() {
    first -= 1;
    above.after(draw(first));
  }
  function remove(article, index) {
    if (article.querySelector('.editing')) edited.set(index, article);
    article.remove();
  }
  const articles = () => Array.from(element.children).slice(1, -1);

  function sum(from, to) {
    const measured = heights.filter(Boolean);
    const usual = measured.length > 5 ? measured.reduce((all, each) => all + each, 0) / measured.length : GUESS;
    let height = 0;
    for (let at = from; at < to; at += 1) height += heights[at] ?? usual;
    return height;
  }
  function measureGaps() {
    above.style.height = `${sum(0, first)}px`;
    below.style.height = `${sum(last, total)}px`;
  }
  // Change the document without moving the visible messages.
  function hold(perform) {
    const anchor = articles().find((each) => each.getBoundingClientRect().bottom > 0);
    const before = anchor?.getBoundingClientRect().top;
    perform();
    measureGaps();
    const moved = anchor?.isConnected ? anchor.getBoundingClientRect().top - before : 0;
    if (Math.abs(moved) >= 1) scrollBy(0, moved);
  }

  // Draw and remove messages, for at most a slice of a frame.
  function adjust() {
    isDue = false;
    if (signal.aborted || !total || !element.isConnected) return;
    const top = above.getBoundingClientRect().bottom;
    const bottom = below.getBoundingClientRect().top;
    const isBefore = top > innerHeight && first > 0;
    const isBehind = bottom < 0 && last < total;
    if (isBefore || isBehind || first === last) {
      const isEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 5;
      if (isEnd) end(); // heights are guessed: the place of the last message is not
      else jump(findIndex());
      return;
    }
    const until = performance.now() + SLICE;
    if (top > -AHEAD && first > 0) {
      if (!known[first - 1]) return fetchNear(first - 1);
      hold(() => {
        do prepend();
        while (
          first > 0 &&
          known[first - 1] &&
          performance.now() < until &&
          above.getBoundingClientRect().bottom > -AHEAD
        );
      });
      schedule();
    } else if (bottom < innerHeight + AHEAD && last < total) {
      if (!known[last]) return fetchNear(last);
      do append();
      while (
        last < total &&
        known[last] &&
        performance.now() < until &&
        below.getBoundingClientRect().top < innerHeight + AHEAD
      );
      measureGaps();
      schedule();
    }
    trim();
  }
  function fetchNear(index) {
    access(index).then(schedule, () => {}); // it is tried again with the next scroll
  }
  // Remove messages far from the window.
  function trim() {
    const shown = articles();
    const places = shown.map((each) => each.getBoundingClientRect());
    places.forEach((place, at) => {
      const next = places[at + 1]?.top ?? below.getBoundingClientRect().top;
      heights[first + at] = next - place.top;
    });
    const above = places.findIndex((place) => place.bottom > -KEPT);
    const far = places.findLastIndex((place) => place.top < innerHeight + KEPT);
    if (above > 0) {
      hold(() => {
        for (let at = 0; at < above; at += 1) remove(shown[at], first + at);
        first += above;
      });
    }
    if (far >= 0 && far < shown.length - 1) {
      for (let at = far + 1; at < shown.length; at += 1) remove(shown[at], last - shown.length + at);
      last -= shown.length - 1 - far;
      measureGaps();
    }
  }
  function schedule() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(adjust);
  }

  // The message that belongs at the upper edge of the window, after a jump into a gap.
  function findIndex() {
    const sought = -element.getBoundingClientRect().top;
    const usual = sum(0, total) / total;
    let height = 0;
    for (let at = 0; at < total; at += 1) {
      height += heights[at] ?? usual;
      if (height > sought) return at;
    }
    return total - 1;
  }
  async function jump(index) {
    await Promise.all([access(index), access(Math.max(0, Math.min(total - 1, index + 8)))]).catch(() => {});
    if (!known[index] || signal.aborted) return;
    articles().forEach((each, at) => remove(each, first + at));
    first = last = index;
    const until = performance.now() + SLICE;
    do append();
    while (last < total && known[last] && performance.now() < until);
    measureGaps();
    schedule();
  }

  // Draw a message, and return its element.
  async function show(index) {
    const wanted = Math.max(0, Math.min(total - 1, index));
    if (wanted < first || wanted >= last) await jump(wanted);
    return document.getElementById(`message-${wanted}`);
  }
  // Scroll to the end.
  async function end() {
    if (total && last < total) await jump(Math.max(0, total - 8));
    while (last < total && known[last]) append();
    measureGaps();
    scrollTo(0, document.documentElement.scrollHeight);
    adjust();
  }
  // Draw buttons and marks again.
  function update() {
    articles().forEach((article, at) => {
      article.querySelector('.verbs')?.replaceChildren(...verbs(article.canister, first + at));
      decorate(article, first + at);
    });
  }
  addEventListener('scroll', schedule, { signal, passive: true });
  addEventListener('resize', schedule, { signal });
  return { element, look, access, show, end, update, count: () => total };
}
