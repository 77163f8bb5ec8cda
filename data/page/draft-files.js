// Files of drafts, in IndexedDB, because session storage holds only texts. As the texts, they belong to
// one tab and one key: session storage has the random name under which the files of a draft are stored.
import { recall, remember } from './service.js';

export const ROOM_MB = 40; // of all drafts of this browser
const LONGEST = 24 * 60 * 60 * 1000; // milliseconds, after which the tab of a draft counts as closed
const PATIENCE = 10 * 1000; // milliseconds: in some browsers, a database may not open before they are restarted
const DATABASE = 'vibe-drafts';
const STORE = 'files';

let queue = Promise.resolve(); // one after the other, so that the next view finds what this one keeps

function enqueue(perform) {
  const done = queue.then(() => finishInTime(perform()));
  queue = done.catch(() => {});
  return done;
}

// Fail if work takes too long: nothing may wait for it, such as the next message.
function finishInTime(work) {
  let timer = 0;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error('The storage does not answer.')), PATIENCE);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

// Keep the files of a draft in place of earlier ones; resolve to those for which there is no room.
// Fails if the browser refuses to store files.
export function keepFiles(draft, files) {
  const name = readNote(draft).name || produceName();
  const titles = files.map((file) => file.name);
  const hasNone = !recall(`files-${draft}`) && !files.length;
  if (hasNone) return Promise.resolve([]);
  remember(`files-${draft}`, files.length ? JSON.stringify({ name, titles }) : '');
  if (files.length && !recall(`files-${draft}`)) return Promise.reject(new Error('The storage is full.'));
  return enqueue(() => change((store) => replace(store, name, files)));
}

// Resolve to the kept files of a draft, and to the names of those that are lost; at once if it had none.
export async function recallFiles(draft) {
  const { name, titles } = readNote(draft);
  // Also without a file to find: files of tabs that were closed are removed. A refusal is said when
  // files are attached.
  const found = enqueue(() => change((store) => read(store, name))).catch(() => []);
  const files = name ? await found : [];
  const kept = files.map((file) => file.name);
  return { files, lost: titles.filter((title) => !kept.includes(title)) };
}

// Remove files, by the notes about them that session storage had.
export function dropFiles(notes) {
  return enqueue(() => change((store) => notes.map((each) => store.delete(parseNote(each).name))));
}

function readNote(draft) {
  return parseNote(recall(`files-${draft}`));
}

function parseNote(text) {
  try {
    const { name, titles } = JSON.parse(text);
    return { name: String(name), titles: titles.map(String) };
  } catch {
    return { name: '', titles: [] };
  }
}

function produceName() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (each) => each.toString(36)).join('-');
}

// --- in a transaction: without waiting for anything else, which would end it

async function replace(store, name, files) {
  let room = ROOM_MB << 20;
  for (const row of await resolve(store.getAll())) {
    if (row.name === name) continue;
    if (isOld(row)) store.delete(row.name);
    else room -= row.size;
  }
  const kept = [];
  for (const file of files) {
    if (file.size > room) continue;
    room -= file.size;
    kept.push(file);
  }
  const size = kept.reduce((sum, file) => sum + file.size, 0);
  if (kept.length) store.put({ name, size, moment: Date.now(), files: kept });
  else store.delete(name);
  return files.filter((file) => !kept.includes(file));
}

async function read(store, name) {
  let files = [];
  for (const row of await resolve(store.getAll())) {
    if (row.name === name) ({ files } = row);
    else if (isOld(row)) store.delete(row.name);
  }
  return files;
}

function isOld({ moment }) {
  return moment < Date.now() - LONGEST;
}

// Perform changes in a transaction; resolve to their result when they are stored.
async function change(perform) {
  const database = await open();
  try {
    const transaction = database.transaction(STORE, 'readwrite');
    const done = new Promise((succeed, fail) => {
      transaction.addEventListener('complete', succeed);
      transaction.addEventListener('abort', () => fail(transaction.error ?? new Error('The storage is full.')));
    });
    const [result] = await Promise.all([perform(transaction.objectStore(STORE)), done]);
    return result;
  } finally {
    database.close();
  }
}

function open() {
  const request = indexedDB.open(DATABASE, 1);
  request.addEventListener('upgradeneeded', () => request.result.createObjectStore(STORE, { keyPath: 'name' }));
  return resolve(request);
}

function resolve(request) {
  return new Promise((succeed, fail) => {
    request.addEventListener('success', () => succeed(request.result));
    request.addEventListener('error', () => fail(request.error));
  });
}
