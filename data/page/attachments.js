// Pictures and files for the next message: dropped, pasted or chosen.
import { complain, make, press, say, show } from './elements.js';

const MOST = 20 * 1024 * 1024; // bytes of one file; a request takes 64 MB, and base64 adds a third
const TOTAL = 40 * 1024 * 1024;
const LONGEST_TEXT = 200_000;
const KINDS = new Set(['image', 'audio', 'video']);
const TEXTUAL = /^(text\/|application\/(json|xml|toml|yaml|x-yaml|javascript|x-sh|sql))/;
const TEXTUAL_NAMES =
  /\.(md|rst|txt|csv|tsv|json|jsonl|toml|yaml|yml|ini|cfg|log|xml|py|js|ts|jsx|tsx|css|sh|sql|rs|go|java|c|h|cpp|rb|php|tex|diff|patch)$/i;

// `onChange` is called when files were attached or removed by the user.
export function composeAttachments(onChange) {
  let parts = [];
  let restored = Promise.resolve(); // settles when the files of the draft are there
  const list = make('ul', { class: 'attachments', 'aria-label': 'Attachments', hidden: true });
  const field = make('input', {
    type: 'file',
    multiple: true,
    hidden: true,
    id: 'files',
    on: { change: () => (add(field.files), (field.value = '')) },
  });
  const button = press('+', () => field.click(), { class: 'round', id: 'attach', 'aria-label': 'Attach files' });

  async function add(files) {
    const given = Array.from(files); // the list ends with the event
    await restored;
    await takeAll(given, (file) => say(`Attached ${file.name}.`));
    onChange();
  }
  async function takeAll(given, tell = () => {}) {
    for (const file of given) {
      try {
        await take(file);
        tell(file);
      } catch (error) {
        complain(error);
      }
    }
    draw();
  }
  async function take(file) {
    const size = parts.reduce((sum, each) => sum + each.file.size, 0);
    if (file.size > MOST || size + file.size > TOTAL)
      throw new Error(`${file.name} is too large: ${MOST >> 20} MB a file, ${TOTAL >> 20} MB together.`);
    parts.push(await readPart(file));
  }
  function remove(part) {
    parts = parts.filter((each) => each !== part);
    if (part.url) URL.revokeObjectURL(part.url);
    draw();
    onChange();
    button.focus();
  }
  function draw() {
    show(list, parts.map((part) => composePart(part, () => remove(part))));
    list.hidden = !parts.length;
  }
  return {
    list,
    button,
    field,
    add,
    // Show the files that a promise resolves to; those that are added meanwhile come behind them.
    restore(recalled) {
      restored = recalled.then(({ files }) => takeAll(files));
    },
    waitUntilRestored: () => restored,
    read: () => parts.map((each) => each.content),
    survey: () => parts.map((each) => each.file),
    // Remove what was sent; files added since then stay.
    discard(contents) {
      const isSent = (part) => contents.includes(part.content);
      for (const each of parts.filter(isSent)) if (each.url) URL.revokeObjectURL(each.url);
      parts = parts.filter((each) => !isSent(each));
      draw();
    },
  };
}

async function readPart(file) {
  const kind = file.type.split('/')[0];
  if (!KINDS.has(kind) && (TEXTUAL.test(file.type) || TEXTUAL_NAMES.test(file.name))) {
    const text = await file.text();
    if (text.length > LONGEST_TEXT)
      throw new Error(`${file.name} is too long: ${LONGEST_TEXT.toLocaleString()} characters.`);
    const fence = '`'.repeat(Math.max(3, ...(text.match(/`+/g) ?? []).map((each) => each.length + 1)));
    return { file, content: { type: 'text', text: `${file.name}:\n\n${fence}\n${text}\n${fence}` } };
  }
  const type = KINDS.has(kind) ? kind : 'file';
  const data = await encode(file);
  const content = { type, data, name: file.name, ...(file.type ? { mime_type: file.type } : {}) };
  return { file, content, url: type === 'image' ? URL.createObjectURL(file) : '' };
}

export function encode(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => resolve(reader.result.slice(reader.result.indexOf(',') + 1)));
    reader.addEventListener('error', () => reject(new Error(`${file.name ?? 'The file'} cannot be read.`)));
    reader.readAsDataURL(file);
  });
}

function composePart({ file: { name }, url }, remove) {
  return make(
    'li',
    {},
    url ? make('img', { src: url, alt: '' }) : null,
    make('bdi', {}, name),
    press('×', remove, { class: 'quiet', 'aria-label': `Remove ${name}` }),
  );
}
