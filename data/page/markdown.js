// Markdown as elements. The parser gives tokens, and each becomes an element made here: no text of
// a model ever becomes markup.
import { composeCopy, make, sanitize } from './elements.js';

const TAGS = new Set([
  'p',
  'ul',
  'ol',
  'li',
  'blockquote',
  'table',
  'thead',
  'tbody',
  'tr',
  'th',
  'td',
  'em',
  'strong',
  's',
  'hr',
]);
const SCHEMES = new Set(['http:', 'https:', 'mailto:']);
const LONGEST = 50_000; // characters of code that are colored
const DEEPEST = 60; // nesting of quotes and lists
let library = null;
let loading = null;
let formulas = null;
let drawFormula = null;

// Load the library; it is large, and only answers need it.
export function loadMarkdown() {
  loading ??= import('./rendering.js').then(({ MarkdownIt, highlighter }) => {
    const parser = new MarkdownIt({ html: false, linkify: true, breaks: true, maxNesting: DEEPEST });
    parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
    parser.inline.ruler.before('escape', 'formula', readFormula);
    library = { parser, highlighter };
  });
  return loading;
}

// Return the text as elements, or null before the library is loaded.
export function renderMarkdown(text) {
  if (!library) return null;
  const root = document.createDocumentFragment();
  draw(library.parser.parse(sanitize(text), {}), root);
  return root;
}

// Replace what has changed, so that a selection in the earlier part of a growing answer stays.
export function patch(place, fragment) {
  const fresh = Array.from(fragment.childNodes);
  const old = Array.from(place.childNodes);
  let same = 0;
  while (same < fresh.length && same < old.length && old[same].isEqualNode(fresh[same])) same += 1;
  for (const each of old.slice(same)) each.remove();
  place.append(...fresh.slice(same));
}

function draw(tokens, root) {
  const stack = [root];
  for (const token of tokens) {
    const place = stack.at(-1);
    if (token.hidden) continue;
    if (token.nesting === 1) stack.push(open(token, place));
    else if (token.nesting === -1) stack.length > 1 && stack.pop();
    else if (token.type === 'inline') draw(token.children, place);
    else place.append(leaf(token));
  }
}

function open(token, place) {
  const { outer, inner } = wrap(token);
  place.append(outer);
  return inner;
}

function wrap({ tag, attrs, type }) {
  const attributes = Object.fromEntries(attrs ?? []);
  if (/^h[1-6]$/.test(tag)) return same(make(`h${Math.min(6, Number(tag[1]) + 2)}`, { class: tag }));
  if (type === 'link_open') return same(composeLink(attributes.href));
  if (tag === 'table') {
    const table = make('table');
    return { outer: make('div', { class: 'scroll' }, table), inner: table };
  }
  const align = /^text-align:(center|right)$/.exec(attributes.style ?? '');
  const start = tag === 'ol' && /^\d{1,9}$/.test(attributes.start ?? '') ? attributes.start : null;
  return same(make(TAGS.has(tag) ? tag : 'span', { class: align ? align[1] : null, start }));
}

function same(element) {
  return { outer: element, inner: element };
}

function leaf(token) {
  switch (token.type) {
    case 'text':
    case 'text_special':
      return document.createTextNode(token.content);
    case 'softbreak':
    case 'hardbreak':
      return make('br');
    case 'hr':
      return make('hr');
    case 'code_inline':
      return make('code', { dir: 'ltr' }, token.content);
    case 'fence':
    case 'code_block':
      return composeCode(token.content, token.info.trim().split(/\s+/)[0]);
    case 'formula':
      return composeFormula(token.content, token.markup === 'block');
    case 'image': {
      // Nothing is loaded from other servers.
      const link = composeLink(token.attrGet('src') ?? '');
      link.append(`[picture: ${token.content || 'without a name'}]`);
      return link;
    }
    default:
      return document.createTextNode(token.content);
  }
}

function composeLink(href) {
  let scheme = '';
  try {
    scheme = new URL(href).protocol;
  } catch {
    // it is relative: nothing here that a model could mean
  }
  if (!SCHEMES.has(scheme)) return make('span', { title: href });
  return make('a', { href, title: href, target: '_blank', rel: 'noopener noreferrer' });
}

// --- code -------------------------------------------------------------------------------------

function composeCode(text, language) {
  const code = make('code', {}, color(text.replace(/\n$/, ''), language));
  const copy = composeCopy(() => code.textContent, { 'aria-label': 'Copy the code' });
  return make(
    'div',
    { class: 'code' },
    make('div', { class: 'bar' }, make('span', { class: 'facts' }, language || 'text'), copy),
    make(
      'pre',
      { dir: 'ltr', tabindex: '0', role: 'group', 'aria-label': `Code${language ? ` in ${language}` : ''}` },
      code,
    ),
  );
}

function color(text, language) {
  const { highlighter } = library;
  if (!language || text.length > LONGEST || !highlighter.getLanguage(language)) return text;
  try {
    return colorNode(highlighter.highlight(text, { language, ignoreIllegals: true })._emitter.root);
  } catch {
    return text;
  }
}

function colorNode(node) {
  return node.children.map((each) =>
    typeof each === 'string'
      ? each
      : make('span', { class: each.scope ? `hljs-${each.scope.split('.')[0]}` : null }, colorNode(each)),
  );
}

// --- formulas ---------------------------------------------------------------------------------

const DELIMITERS = [['$$', '$$'], ['\\[', '\\]'], ['\\(', '\\)'], ['$', '$']];

// Rule of the parser: formulas between dollar signs, or escaped brackets.
function readFormula(state, silent) {
  const { src, pos, posMax } = state;
  if (src[pos] !== '$' && src[pos] !== '\\') return false;
  const found = DELIMITERS.find(([begin]) => src.startsWith(begin, pos));
  if (!found) return false;
  const [begin, end] = found;
  const from = pos + begin.length;
  state.missing ??= new Set(); // a missing one is not searched again
  const to = state.missing.has(end) ? -1 : src.indexOf(end, from);
  if (to < 0) state.missing.add(end);
  if (to <= from || to + end.length > posMax) return false;
  const text = src.slice(from, to);
  // Money is not a formula: "$5 and $6".
  if (begin === '$' && (/^\s|\s$|\n\n/.test(text) || /\d/.test(src[to + 1] ?? ''))) return false;
  if (!silent) {
    const token = state.push('formula', '', 0);
    token.content = text;
    token.markup = begin === '$$' || begin === '\\[' ? 'block' : 'inline';
  }
  state.pos = to + end.length;
  return true;
}

function composeFormula(text, isBlock) {
  const place = make(
    'span',
    { class: `formula ${isBlock ? 'block' : ''}`.trim() },
    make('code', { dir: 'ltr' }, text.trim()),
  );
  if (drawFormula) {
    fillFormula(place, text, isBlock); // at once: a growing answer draws it again and again
  } else {
    formulas ??= import('./formulas.js').then(({ render }) => (drawFormula = render));
    formulas.then(() => fillFormula(place, text, isBlock)).catch(() => {}); // its source stays
  }
  return place;
}

function fillFormula(place, text, isBlock) {
  const drawn = make('span');
  try {
    drawFormula(text, drawn, {
      output: 'mathml',
      displayMode: isBlock,
      throwOnError: true,
      strict: 'ignore',
      trust: false,
      maxSize: 20,
      maxExpand: 300,
    });
  } catch {
    return; // its source stays
  }
  place.replaceChildren(...drawn.childNodes);
}
