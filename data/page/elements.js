// Makes what is shown. Whatever anybody has said becomes a text, never markup.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [event, hear] of Object.entries(value)) element.addEventListener(event, hear);
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  element.append(...children.flat().filter((each) => each !== null && each !== undefined));
  return element;
}

// Strangers' words: their direction is their own, and does not reach beyond them.
export function quote(text, tag = 'bdi') {
  return make(tag, { dir: 'auto' }, String(text));
}

export function press(label, perform, attributes = {}) {
  return make('button', { type: 'button', on: { click: perform }, ...attributes }, label);
}

// Whoever is at something with the keyboard stays there, when it is shown anew.
export function show(place, ...children) {
  const focused = document.activeElement;
  const id = place.contains(focused) ? focused.id : '';
  place.replaceChildren(...children.flat().filter(Boolean));
  if (id) document.getElementById(id)?.focus({ preventScroll: true });
}

export function say(text) {
  document.getElementById('said').textContent = text;
}

// Lets the browser keep what was read.
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  make('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function complain(error) {
  const place = document.getElementById('trouble');
  place.textContent = error ? error.message : '';
  place.hidden = !error;
}

// One question to a person; resolves to the fields of the answer, or to null.
export function ask(title, fields, label = 'OK') {
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
    dialog.addEventListener('close', () => resolve(answer), { once: true });
    dialog.showModal();
    inputs[0]?.[1].select();
  });
}
