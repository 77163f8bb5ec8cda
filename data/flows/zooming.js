// Size and place of a diagram: fitted until the user zooms, and kept when it is drawn again. It moves
// by its scroll bars, by dragging, and by the arrow keys. Stands before drawing.js.
'use strict';
const zooming = (() => {
  const lenses = new WeakMap();
  function access(drawing) {
    if (!lenses.has(drawing)) lenses.set(drawing, composeLens(drawing));
    return lenses.get(drawing);
  }

  function composeLens(drawing) {
    const least = 0.05;
    const most = 4;
    let picture = null;
    let natural = 1;
    let scale = null; // null: fitted
    const shown = document.createElement('output');

    const fitWhole = () => {
      const { width, height } = picture.viewBox.baseVal;
      const style = getComputedStyle(drawing);
      const across = drawing.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      const room = parseFloat(style.maxHeight) - (drawing.offsetHeight - drawing.clientHeight) - 1;
      const down = (room || drawing.clientHeight) - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
      return Math.min(1, across / width, down > 40 ? down / height : 1);
    };
    // At first, a picture is as wide as its place and whole, as far as it stays readable.
    const fitReadable = () => {
      const wide = Math.max(Math.min(1, (drawing.clientWidth - 32) / natural), 0.75);
      return Math.min(wide, Math.max(fitWhole(), 0.6));
    };

    function apply(size) {
      if (!picture) return;
      picture.style.width = `${natural * size}px`;
      shown.textContent = `${Math.round(size * 100)} %`;
    }
    // Zoom around a point of the drawing, by default its middle.
    function zoom(size, x = drawing.clientWidth / 2, y = drawing.clientHeight / 2) {
      if (!picture) return;
      const before = picture.getBoundingClientRect();
      const box = drawing.getBoundingClientRect();
      const [across, down] = [(box.left + x - before.left) / before.width, (box.top + y - before.top) / before.height];
      scale = Math.min(most, Math.max(least, size));
      apply(scale);
      const after = picture.getBoundingClientRect();
      drawing.scrollLeft += after.left + across * after.width - box.left - x;
      drawing.scrollTop += after.top + down * after.height - box.top - y;
    }
    const read = () => (picture ? picture.getBoundingClientRect().width / natural : 1);
    function fit() {
      if (!picture) return;
      scale = fitWhole();
      apply(scale);
    }

    const bar = document.createElement('div');
    bar.className = 'zoom script-only';
    bar.setAttribute('role', 'group');
    bar.setAttribute('aria-label', 'Size of the diagram');
    for (const [words, label, perform] of [
      ['−', 'Smaller', () => zoom(read() / 1.25)],
      ['+', 'Larger', () => zoom(read() * 1.25)],
      ['Fit', 'Fit the whole diagram', fit],
      ['100 %', 'Original size', () => zoom(1)],
    ]) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = words;
      button.setAttribute('aria-label', label);
      button.addEventListener('click', perform);
      bar.append(button);
    }
    bar.append(shown);
    drawing.before(bar);
    drawing.setAttribute('tabindex', '0');
    drawing.setAttribute('role', 'group');
    drawing.setAttribute('aria-label', 'Diagram: arrow keys move it, plus and minus zoom, 0 fits it');

    drawing.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const perform = {
        '+': () => zoom(read() * 1.25),
        '=': () => zoom(read() * 1.25),
        '-': () => zoom(read() / 1.25),
        0: fit,
      }[event.key];
      if (!perform) return;
      event.preventDefault();
      perform();
    });
    drawing.addEventListener(
      'wheel',
      (event) => {
        if (!event.ctrlKey) return; // which is also how a touchpad says that it is pinched
        event.preventDefault();
        const box = drawing.getBoundingClientRect();
        zoom(read() * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
      },
      { passive: false },
    );
    // A finger scrolls by itself.
    let grip = null;
    drawing.addEventListener('pointerdown', (event) => {
      if (event.button === 0 && event.pointerType === 'mouse')
        grip = { x: event.clientX, y: event.clientY, left: drawing.scrollLeft, top: drawing.scrollTop, isMoved: false };
    });
    drawing.addEventListener('pointermove', (event) => {
      if (!grip) return;
      const [x, y] = [event.clientX - grip.x, event.clientY - grip.y];
      if (!grip.isMoved && Math.abs(x) + Math.abs(y) < 5) return;
      if (!grip.isMoved) drawing.setPointerCapture(event.pointerId);
      grip.isMoved = true;
      drawing.classList.add('dragged');
      drawing.scrollTo(grip.left - x, grip.top - y);
    });
    const release = () => {
      const wasMoved = grip?.isMoved;
      grip = null;
      drawing.classList.remove('dragged');
      // What was dragged is not clicked.
      if (wasMoved)
        drawing.addEventListener('click', (event) => event.stopPropagation(), { capture: true, once: true });
      if (wasMoved) setTimeout(() => drawing.dispatchEvent(new Event('click')));
    };
    drawing.addEventListener('pointerup', release);
    drawing.addEventListener('pointercancel', release);
    new ResizeObserver(() => scale === null && picture && apply(fitReadable())).observe(drawing);
    return {
      adopt(drawn, width) {
        picture = drawn;
        natural = width || 1;
        apply(scale ?? fitReadable());
      },
      // For a page that loads itself again.
      read: () => scale,
      restore(size) {
        scale = Number.isFinite(size) ? size : null;
      },
    };
  }

  return { access };
})();
