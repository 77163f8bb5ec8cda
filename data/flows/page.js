// Draw the diagram of a flow and show the messages of the selected node.
// All texts are in the page as escaped HTML; nothing is parsed or fetched here.
'use strict';
(() => {
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find('data').textContent);
  const drawing = find('drawing');
  const panel = find('details');
  const { dark } = drawer;
  document.documentElement.classList.add('scripted');

  // State kept while an unfinished page reloads itself: files have no storage.
  const before = history.state ?? {};

  function survey(root, selector) {
    return Array.from(root.querySelectorAll(selector));
  }

  function show(anchor) {
    const chosen = find(anchor);
    const section = chosen?.closest('.node-details');
    if (!section) return null;
    for (const each of survey(document, '.node-details')) {
      each.classList.toggle('shown', each === section);
    }
    for (const each of survey(document, '.visit, .visits tr')) {
      each.classList.toggle('chosen', each === chosen || each.dataset.visit === anchor);
    }
    for (const each of survey(drawing, '.node[data-anchor]')) {
      const isSelected = each.dataset.anchor === section.id;
      each.classList.toggle('selected', isSelected);
      each.setAttribute('aria-pressed', String(isSelected));
    }
    return chosen;
  }

  function choose(anchor) {
    const chosen = show(anchor);
    if (!chosen) return;
    history.replaceState(history.state, '', `#${anchor}`);
    if (panel.scrollHeight > panel.clientHeight) {
      panel.scrollTop = chosen.classList.contains('visit') ? chosen.offsetTop - panel.offsetTop : 0;
    }
    const { top, bottom } = panel.getBoundingClientRect();
    if (top > innerHeight - 80 || bottom < 80) chosen.scrollIntoView({ block: 'start' });
  }

  async function draw() {
    try {
      place(await drawer.draw(data.diagram));
    } catch (error) {
      const said = document.createElement('p');
      said.className = 'trouble';
      said.textContent = `This browser cannot draw the diagram: ${error?.message ?? error}`;
      drawing.prepend(said);
    }
    document.documentElement.dataset.drawn = 'yes';
  }

  function place(svg) {
    for (const [id, node] of drawer.place(drawing, svg)) {
      const anchor = data.nodes[id];
      if (!anchor) continue;
      node.dataset.anchor = anchor;
      drawer.makeButton(node, find(anchor).getAttribute('aria-label'));
    }
    show(location.hash.slice(1)) ?? show(data.first);
  }

  drawer.hear(drawing, (node) => choose(node.dataset.anchor));
  document.addEventListener('click', (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (!link) return;
    event.preventDefault();
    choose(link.getAttribute('href').slice(1));
  });
  addEventListener('hashchange', () => show(location.hash.slice(1)));
  dark.addEventListener('change', draw);

  function remember(isPaused) {
    const focused = document.activeElement;
    const state = {
      isPaused,
      x: scrollX,
      y: scrollY,
      panel: panel.scrollTop,
      picture: [drawing.scrollLeft, drawing.scrollTop],
      size: zooming.access(drawing).read(),
      focus: focused?.dataset?.anchor ?? focused?.id ?? '',
      open: survey(panel, 'details').map((each) => each.open),
      isDark: dark.matches,
      diagram: data.diagram,
      svg: drawing.querySelector('svg') ? drawing.innerHTML : '',
    };
    try {
      history.replaceState(state, '');
    } catch {
      history.replaceState({ ...state, svg: '' }, ''); // the picture was too large
    }
  }

  function restore() {
    zooming.access(drawing).restore(before.size);
    if (before.svg) place(before.svg); // shown until the new one is drawn, to avoid flicker
    show(location.hash.slice(1)) ?? show(data.first);
    survey(panel, 'details').forEach((each, index) => {
      each.open = before.open?.[index] ?? each.open;
    });
    if (before.y !== undefined) scrollTo(before.x, before.y);
    if (before.panel) panel.scrollTop = before.panel;
    if (before.picture) drawing.scrollTo(...before.picture);
    const isKept = before.svg && before.diagram === data.diagram && before.isDark === dark.matches;
    const ready = isKept ? Promise.resolve() : draw();
    if (isKept) document.documentElement.dataset.drawn = 'yes';
    ready.then(() => {
      if (!before.focus) return;
      const node = drawing.querySelector(`.node[data-anchor="${CSS.escape(before.focus)}"]`);
      (node ?? find(before.focus))?.focus({ preventScroll: true });
    });
  }

  function tick() {
    for (const each of survey(document, 'time[data-since]')) {
      const seconds = Math.max(0, (Date.now() - Date.parse(each.dataset.since)) / 1000);
      const minutes = Math.floor(seconds / 60);
      each.textContent = minutes
        ? `${minutes} min ${Math.floor(seconds % 60)} s`
        : `${Math.floor(seconds)} s`;
    }
  }

  function follow() {
    const button = find('pause');
    let isPaused = Boolean(before.isPaused);
    const label = () => {
      button.textContent = isPaused ? 'Go on' : 'Pause';
    };
    button.addEventListener('click', () => {
      isPaused = !isPaused;
      label();
      remember(isPaused);
    });
    label();
    tick();
    setInterval(tick, 1000);
    setInterval(() => {
      const isReading = !getSelection().isCollapsed;
      if (isPaused || isReading || document.hidden || !document.documentElement.dataset.drawn) return;
      remember(isPaused);
      location.reload();
    }, data.interval_ms);
  }

  restore();
  if (data.is_live) follow();
})();
