// Requests to the daemon that served this page. The key is kept while the tab is open.
import { askUser } from './elements.js';

const PLACE = new URL('../', document.baseURI);
const KEY = `vibe-key ${PLACE}`;
const LONGEST_PAUSE = 5000;

let asking = null; // the dialog for a key
let offered = null; // what the daemon offers, for this key

export class Refusal extends Error {
  constructor(status, told) {
    super(told?.message ?? `The daemon answered with status ${status}.`);
    this.status = status;
  }
}

// Another key is another user, who does not see the drafts, the choice and the offers of the one before.
export function adoptKey(key) {
  if (key === (sessionStorage.getItem(KEY) ?? '')) return;
  const names = Object.keys(sessionStorage).filter((name) => name.startsWith('vibe-') && name.endsWith(` ${PLACE}`));
  const files = names.filter((name) => name.startsWith('vibe-files-')).map((name) => sessionStorage.getItem(name));
  for (const name of names) sessionStorage.removeItem(name);
  if (files.length) import('./draft-files.js').then(({ dropFiles }) => dropFiles(files)).catch(() => {});
  if (key) sessionStorage.setItem(KEY, key);
  offered = null;
  document.dispatchEvent(new Event('key'));
}

// Return whether the key in use has a public part.
export function isOwn(id) {
  return (sessionStorage.getItem(KEY) ?? '').startsWith(`vk-${id}-`);
}

// Drafts and choices, while the tab is open and the key is the same.
export function remember(name, text) {
  try {
    if (text) sessionStorage.setItem(`vibe-${name} ${PLACE}`, text);
    else sessionStorage.removeItem(`vibe-${name} ${PLACE}`);
  } catch {
    // the storage is full: the text is only in its field
  }
}

export function recall(name) {
  return sessionStorage.getItem(`vibe-${name} ${PLACE}`) ?? '';
}

export function askForKey(reason = 'Enter your key.') {
  asking ??= askUser(reason, [['key', 'Key', { type: 'password' }]], 'Use key')
    .then((answer) => {
      if (answer) adoptKey(answer.key.trim());
      return answer !== null;
    })
    .finally(() => {
      asking = null;
    });
  return asking;
}

async function fetchAt(path, { method = 'GET', body, headers = {}, signal } = {}) {
  const key = sessionStorage.getItem(KEY);
  let response;
  try {
    response = await fetch(new URL(path, PLACE), {
      method,
      signal,
      cache: 'no-store',
      credentials: 'omit',
      headers: {
        ...(key ? { authorization: `Bearer ${key}` } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error('Cannot reach the daemon; retrying.');
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  const isOld = key !== sessionStorage.getItem(KEY); // another key was given after this request was sent
  if (response.status === 401 && (isOld || (await askForKey(told?.error?.message)))) {
    return fetchAt(path, { method, body, headers, signal });
  }
  throw new Refusal(response.status, told?.error);
}

export async function ask(path, options) {
  return (await fetchAt(path, options)).json();
}

export function post(path, body = {}) {
  return ask(path, { method: 'POST', body });
}

// Return whether the daemon offers a path; one that only shows runs cannot start any.
export async function offers(path, verb = 'post') {
  offered ??= ask('openapi.json').catch(() => null);
  const told = await offered;
  if (!told) offered = null;
  return Boolean(told?.paths?.[path]?.[verb]);
}

export async function fetchDocument(path, options) {
  const response = await fetchAt(path, options);
  const named = /filename="([^"]*)"/.exec(response.headers.get('content-disposition') ?? '');
  return { name: named?.[1] ?? 'conversation.txt', blob: await response.blob() };
}

// Server-sent events over fetch, as EventSource cannot show a key. Resumes after an interruption.
export async function* follow(path, after, signal) {
  let pause = 250;
  let last = after;
  for (;;) {
    // Browsers keep pages for going back, and hidden tabs stay open: these must not hold
    // connections, because a browser has only six for each server.
    await waitUntilSeen(signal);
    if (signal.aborted) return;
    const held = new AbortController();
    const release = () => held.abort();
    const hide = () => document.hidden && held.abort();
    addEventListener('pagehide', release);
    document.addEventListener('visibilitychange', hide);
    signal.addEventListener('abort', release);
    try {
      const headers = last ? { 'last-event-id': String(last) } : {};
      const response = await fetchAt(path, { headers, signal: held.signal });
      for await (const event of readFrames(response.body)) {
        pause = 250;
        if (event.id) last = Number(event.id);
        yield event;
        if (event.type === 'run.deleted') return;
      }
    } catch (error) {
      if (signal.aborted || (error instanceof Refusal && error.status < 500 && error.status !== 429)) {
        throw error;
      }
    } finally {
      removeEventListener('pagehide', release);
      document.removeEventListener('visibilitychange', hide);
      signal.removeEventListener('abort', release);
      release();
    }
    await wait(pause, signal);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }
}

async function waitUntilSeen(signal) {
  while (document.hidden && !signal.aborted) {
    await new Promise((resolve) => {
      const done = new AbortController();
      const go = () => (done.abort(), resolve());
      document.addEventListener('visibilitychange', go, { signal: done.signal });
      signal.addEventListener('abort', go, { signal: done.signal });
    });
  }
}

async function* readFrames(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n');
      rest = blocks.pop();
      for (const block of blocks) {
        const event = readFrame(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function readFrame(block) {
  const fields = {};
  for (const line of block.split('\n')) {
    const at = line.indexOf(': ');
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  return fields.data ? { id: fields.id, type: fields.event, data: JSON.parse(fields.data) } : null;
}

export function wait(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}
