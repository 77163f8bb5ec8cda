// Draws a diagram that the page around this frame tells of, and tells it which node was chosen.
// Nothing of anybody is here before that, and nothing can be asked for from here.
'use strict';
(() => {
  const drawing = document.getElementById('drawing');
  let told = null;
  let isDrawing = false;

  // Who frames it is this daemon's page, as the policy allows no other; it has its words already.
  const tell = (message) => parent.postMessage(message, '*');

  async function draw() {
    if (isDrawing) return; // what was told meanwhile is drawn behind it
    isDrawing = true;
    for (let drawn = null; drawn !== told; ) {
      drawn = told;
      try {
        place(await drawer.draw(drawn.diagram), drawn.nodes);
      } catch (error) {
        drawing.textContent = `This browser cannot draw the diagram: ${error?.message ?? error}`;
      }
    }
    isDrawing = false;
    document.documentElement.dataset.drawn = 'yes';
    tell({ height: drawing.scrollHeight });
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
