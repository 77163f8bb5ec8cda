// Draws diagrams with Mermaid, which is packed into the page; it stands before the script of the page.
'use strict';
const drawer = (() => {
  const dark = matchMedia('(prefers-color-scheme: dark)');

  async function load() {
    if (window.mermaid) return;
    const bytes = Uint8Array.from(atob(document.getElementById('packed').textContent), (each) => each.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    const script = document.createElement('script');
    script.textContent = await new Response(stream).text();
    document.head.append(script); // the policy allows it by its digest
  }

  function compose() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return {
      startOnLoad: false,
      securityLevel: 'strict',
      maxEdges: 1e6, // draw every flow, however large
      maxTextSize: 1e8,
      theme: 'base',
      fontFamily: getComputedStyle(document.body).fontFamily,
      flowchart: { wrappingWidth: 340, useMaxWidth: true },
      // labels may have HTML; the policy refuses what loads something
      dompurifyConfig: {
        FORBID_TAGS: ['audio', 'embed', 'form', 'iframe', 'image', 'img', 'object', 'video'],
      },
      themeVariables: {
        darkMode: dark.matches,
        background: read('--paper'),
        primaryColor: read('--raised'),
        primaryTextColor: read('--ink'),
        primaryBorderColor: read('--unreached'),
        lineColor: read('--edge'),
        textColor: read('--ink'),
        edgeLabelBackground: read('--paper'),
        clusterBkg: read('--raised'),
        clusterBorder: read('--line'),
        titleColor: read('--soft'),
      },
    };
  }

  // Return the picture as SVG text.
  async function draw(diagram) {
    try {
      await load();
      window.mermaid.initialize(compose());
      return (await window.mermaid.render('flow-drawing', diagram)).svg;
    } catch (error) {
      document.getElementById('flow-drawing')?.remove();
      throw error;
    }
  }

  // Show a picture; return its nodes with their ids.
  function place(drawing, svg) {
    const { scrollLeft, scrollTop } = drawing;
    drawing.innerHTML = svg;
    const picture = drawing.querySelector('svg');
    // links of the diagram are not opened: a click selects the node
    for (const link of picture.querySelectorAll('a')) link.replaceWith(...link.childNodes);
    const natural = picture.viewBox.baseVal.width;
    zooming.access(drawing).adopt(picture, natural);
    drawing.scrollTo(scrollLeft, scrollTop);
    const named = (node) => [/^flow-drawing-flowchart-(.*)-\d+$/.exec(node.id)?.[1], node];
    return Array.from(picture.querySelectorAll('.node'), named);
  }

  // Make a node a button, also for the keyboard.
  function makeButton(node, label) {
    node.setAttribute('role', 'button');
    node.setAttribute('tabindex', '0');
    node.setAttribute('aria-label', label);
  }

  // Report each pressed node to `choose`.
  function hear(drawing, choose) {
    const find = (event) => {
      const node = event.target.closest?.('.node[role="button"]');
      return node && drawing.contains(node) ? node : null;
    };
    drawing.addEventListener('click', (event) => {
      const node = find(event);
      if (node) choose(node);
    });
    drawing.addEventListener('keydown', (event) => {
      const node = find(event);
      if (!node || (event.key !== 'Enter' && event.key !== ' ')) return;
      event.preventDefault();
      choose(node);
    });
  }

  return { dark, draw, place, makeButton, hear };
})();
