// Create elements. Text from users and models never becomes markup.

const SHOWN_ATTRIBUTES = new Set(['alt', 'aria-label', 'title']);

// Make control characters visible, and let none change the direction of neighbouring text.
// Joiners of letters stay: for text that a user approves, see `reveal`.
export function sanitize(text) {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/gu,
    (found) => {
      const code = found.charCodeAt(0);
      if (code < 0x20) return String.fromCharCode(0x2400 + code);
      if (code === 0x7f) return '\u2421';
      return code === 0x2028 || code === 0x2029 ? '\u2424' : '\ufffd';
    },
  );
}

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [event, hear] of Object.entries(value)) element.addEventListener(event, hear);
    } else {
      const text = value === true ? '' : String(value);
      element.setAttribute(name, SHOWN_ATTRIBUTES.has(name) ? sanitize(text) : text);
    }
  }
  const shown = children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false);
  element.append(...shown.map(clean));
  return element;
}

function clean(child) {
  return child instanceof Node ? child : sanitize(String(child));
}

// Quote text from outside; its direction does not affect the text around it.
export function quote(text, tag = 'bdi') {
  return make(tag, { dir: 'auto' }, String(text));
}

export function press(label, perform, attributes = {}) {
  return make('button', { type: 'button', on: { click: perform }, ...attributes }, label);
}

// Replace the content of a place; keep the keyboard focus.
export function show(place, ...children) {
  const focused = document.activeElement;
  const id = place.contains(focused) ? focused.id : '';
  place.replaceChildren(...children.flat(Infinity).filter(Boolean).map(clean));
  if (id) document.getElementById(id)?.focus({ preventScroll: true });
}

// Announce an event; `isQuiet` for text that only screen readers need.
export function say(text, isQuiet = false) {
  const place = document.getElementById('said');
  place.classList.toggle('quiet', isQuiet);
  place.textContent = sanitize(text);
}

// Use the style sheet of a part of the page, unless the HTML file has it.
export function loadStyle(name) {
  if (document.querySelector(`link[href="${name}"], style[data-href="${name}"]`)) return;
  document.head.append(make('link', { rel: 'stylesheet', href: name }));
}

// Offer a file as a download.
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  make('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function complain(error) {
  const place = document.getElementById('trouble');
  place.textContent = error ? sanitize(error.message) : '';
  place.hidden = !error;
}

// Button that copies a text.
export function composeCopy(read, attributes = {}) {
  const button = press('Copy', async () => {
    try {
      await navigator.clipboard.writeText(read());
    } catch {
      complain(new Error('The browser does not let this page copy. Select the text instead.'));
      return;
    }
    button.textContent = 'Copied';
    say('Copied.');
    setTimeout(() => (button.textContent = 'Copy'), 1500);
  }, { class: 'quiet', ...attributes });
  return button;
}

// Call a function when a dialog that shows an element has closed. The event comes late: the dialog may
// be open again by then, with another element.
export function whenClosed(dialog, element, perform) {
  const end = () => {
    if (dialog.open && dialog.contains(element)) return;
    dialog.removeEventListener('close', end);
    perform();
  };
  dialog.addEventListener('close', end);
}

// Ask the user with a dialog; resolve to the fields, or null if cancelled.
export function askUser(title, fields, label = 'OK') {
  const dialog = document.getElementById('asking');
  const inputs = fields.map(([name, text, attributes]) => [
    name,
    make('input', { id: `asked-${name}`, name, autocomplete: 'off', ...attributes }),
    text,
  ]);
  return new Promise((resolve) => {
    let answer = null;
    const form = make(
      'form',
      {
        on: {
          submit: (event) => {
            event.preventDefault();
            answer = Object.fromEntries(inputs.map(([name, input]) => [name, input.value]));
            dialog.close();
          },
        },
      },
      make('h2', { id: 'asking-title' }, title),
      inputs.map(([name, input, text]) => make('label', { for: `asked-${name}` }, text, input)),
      make(
        'div',
        { class: 'actions' },
        make('button', { type: 'submit', class: 'main' }, label),
        press('Cancel', () => dialog.close()),
      ),
    );
    dialog.replaceChildren(form);
    whenClosed(dialog, form, () => resolve(answer));
    dialog.showModal();
    inputs[0]?.[1].select();
  });
}
