// Draw the diagram that the parent page sends, and report which node was selected.
// The frame holds no data before that and can make no requests.
'use strict';
(() => {
  const drawing = document.getElementById('drawing');
  const SHARE = 3;
  let told = null;
  let isDrawing = false;

  // The policy allows only this daemon's page as the parent, which has these data already.
  const tell = (message) => parent.postMessage(message, '*');

  async function draw() {
    if (isDrawing) return; // the newest message is drawn next
    isDrawing = true;
    for (let drawn = null; drawn !== told; ) {
      drawn = told;
      const before = performance.now();
      try {
        place(await drawer.draw(drawn.diagram), drawn.nodes);
      } catch (error) {
        drawing.textContent = `This browser cannot draw the diagram: ${error?.message ?? error}`;
      }
      document.documentElement.dataset.drawn = 'yes';
      measure();
      // A large diagram of a quick flow is drawn less often.
      await new Promise((resolve) => setTimeout(resolve, SHARE * (performance.now() - before)));
    }
    isDrawing = false;
  }

  function measure() {
    const picture = drawing.querySelector('svg')?.viewBox.baseVal;
    tell({ height: (picture?.height ?? 0) + innerHeight - drawing.clientHeight + 32 });
  }

  function place(svg, labels) {
    const focused = document.activeElement?.dataset?.node;
    for (const [id, node] of drawer.place(drawing, svg)) {
      if (!Object.hasOwn(labels, id)) continue;
      node.dataset.node = id;
      drawer.makeButton(node, labels[id]);
      if (id === focused) node.focus({ preventScroll: true });
    }
  }

  drawer.hear(drawing, (node) => tell({ node: node.dataset.node }));
  drawer.dark.addEventListener('change', () => {
    const again = told;
    told = again && { ...again };
    if (told) draw();
  });
  addEventListener('message', (event) => {
    if (event.source !== parent || typeof event.data?.diagram !== 'string') return;
    told = event.data;
    draw();
  });
  tell({ isReady: true });
})();
