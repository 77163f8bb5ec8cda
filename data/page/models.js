// Models and tools that the daemon offers, and the last choice of both.
import { make, press } from './elements.js';
import { choose } from './palette.js';
import { ask, recall, Refusal, remember } from './service.js';

const ABILITIES = {
  images: 'images', audio: 'audio', video: 'video', files: 'files', reasoning: 'reasoning', invocations: 'tools',
};
let offered = null;
document.addEventListener('key', () => (offered = null));

// What runs may use; null if this page can start none, as with `vibe view`.
export function readOffers() {
  offered ??= Promise.all([ask('models'), ask('ensembles')])
    .then(([models, ensembles]) => ({ ...models, ensembles: ensembles.data.map((each) => each.name) }))
    .catch((error) => {
      if (error instanceof Refusal && [404, 405].includes(error.status)) return null;
      offered = null;
      throw error;
    });
  return offered;
}

function tellPrice(offer) {
  if (offer.input_dollars === null || offer.output_dollars === null) return '';
  return `$${shorten(offer.input_dollars)} in, $${shorten(offer.output_dollars)} out per million tokens`;
}

function shorten(dollars) {
  return String(Number(dollars.toPrecision(3)));
}

function tellWindow(tokens) {
  if (!tokens) return '';
  return tokens >= 1e6 ? `${Number((tokens / 1e6).toPrecision(2))}M context` : `${Math.round(tokens / 1000)}k context`;
}

function describe(offer) {
  const abilities = offer.capabilities.map((each) => ABILITIES[each]).filter(Boolean);
  return [tellWindow(offer.context_window_tokens), ...abilities, tellPrice(offer)].filter(Boolean);
}

// Buttons for model and tools. `choice` has `model` and `ensembles`.
export function composeChoices(offers, choice, onChange = () => {}) {
  const model = press('', pickModel, { class: 'chip', id: 'model' });
  const tools = press('', pickTools, { class: 'chip', id: 'tools', hidden: !offers.ensembles.length });

  const known = new Set(offers.data.map((offer) => offer.id));

  function update() {
    const named = choice.model || (known.has(offers.default) ? offers.default : 'default');
    model.replaceChildren(make('span', { class: 'dim' }, 'Model '), make('bdi', {}, named));
    model.setAttribute('aria-label', `Model: ${named}. Change it`);
    const number = choice.ensembles.length;
    tools.replaceChildren(
      make('span', { class: 'dim' }, number ? 'Tools ' : 'No tools'),
      ...(number ? [make('bdi', {}, choice.ensembles.join(', '))] : []),
    );
    tools.setAttribute('aria-label', `Tools: ${number ? choice.ensembles.join(', ') : 'none'}. Change them`);
  }
  async function pickModel() {
    const chosen = choice.model || offers.default;
    const rows = offers.data.map((offer) => ({
      label: offer.id,
      detail: offer.is_alias && offer.address !== offer.id ? offer.address : '',
      facts: describe(offer),
      group: offer.is_alias ? 'Names' : 'Models',
      isChosen: offer.id === chosen,
      offer,
    }));
    if (!known.has(offers.default))
      rows.unshift({ label: 'default', name: '', facts: ['the choice of the gateway'], isChosen: !choice.model });
    const found = await choose('Model', rows, {
      placeholder: 'Search models, or type a name',
      find: async (words) => (known.has(words) ? [] : [{ label: words, facts: ['use this name'], group: 'Other' }]),
    });
    if (!found) return;
    choice.model = found.name ?? found.label;
    settle();
    model.focus();
  }
  async function pickTools() {
    const rows = offers.ensembles.map((name) => ({ label: name, isChosen: choice.ensembles.includes(name) }));
    await choose('Tools', rows, {
      placeholder: 'Search tools',
      toggle({ label }) {
        const on = new Set(choice.ensembles);
        if (!on.delete(label)) on.add(label);
        choice.ensembles = offers.ensembles.filter((name) => on.has(name));
        settle();
      },
    });
    tools.focus();
  }
  function settle() {
    remember('choice', JSON.stringify(choice));
    update();
    onChange();
  }
  update();
  return { model, tools, update };
}

// The model for the next new conversation.
export function rememberModel(model) {
  remember('choice', JSON.stringify({ ...recallChoice(), model }));
}

export function recallChoice() {
  try {
    const { model = '', ensembles = [] } = JSON.parse(recall('choice') || '{}');
    return { model: String(model), ensembles: ensembles.map(String) };
  } catch {
    return { model: '', ensembles: [] };
  }
}
