"""The page of the agents daemon in Chromium: its first paint, and a conversation of 5,000 messages.

Frames and long tasks are those of the browser's main thread; 16.7 ms are a frame at 60 Hz.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("VIBE_LLMS_CONFIG", os.devnull)

from support.daemons.run_daemons import Daemon, serving
from support.screens.browsers import Tab, open_browser
from support.screens.talking import save_long

VISITS = 9
MESSAGES = 5_000
AIMS = {"first paint, ms": 200, "first load, KB": 300, "longest task, ms": 100}
WATCH = """(() => {
  window.tasks = []; window.frames = [];
  const note = (list) => window.tasks.push(...list.getEntries().map((each) => each.duration));
  new PerformanceObserver(note).observe({ entryTypes: ['longtask'] });
  let last = performance.now();
  const tick = (now) => {
    window.frames.push(now - last);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})()"""
TAKE = """(() => {
  const frames = window.frames.splice(0).sort((one, other) => one - other);
  const tasks = window.tasks.splice(0);
  return {
    frames: frames.length, median: frames[frames.length >> 1],
    late: frames[Math.floor(frames.length * 0.95)],
    worst: frames.at(-1), tasks: tasks.length, longest: Math.max(0, ...tasks),
    elements: document.getElementsByTagName('*').length,
  };
})()"""
PAINT = """(() => {
  const loaded = performance.getEntries().filter((each) => each.transferSize !== undefined);
  return {
    paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
    bytes: loaded.reduce((sum, each) => sum + each.transferSize, 0),
    requests: loaded.length,
  };
})()"""


def print_row(name: str, value: float, unit: str = "") -> None:
    """Print a measure, with its aim if it has one."""
    aim = AIMS.get(name)
    told = "" if aim is None else f"  (aim {aim}: {'met' if value <= aim else 'missed'})"
    print(f"{name:42} {value:10,.1f}{unit}{told}", flush=True)


async def read_processor(tab: Tab) -> float:
    """Return the milliseconds of processor time that the page's main thread has used."""
    metrics = (await tab.call("Performance.getMetrics"))["metrics"]
    return 1_000 * float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


async def measure_paint(tab: Tab, daemon: Daemon) -> None:
    """Open the page several times, without the browser's cache."""
    await tab.call("Network.setCacheDisabled", cacheDisabled=True)
    rows = []
    for _ in range(VISITS):
        await tab.visit("about:blank")
        before = await read_processor(tab)
        await tab.visit(f"{daemon.url}/page/")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        usable = await tab.evaluate("performance.now()")
        spent = await read_processor(tab) - before
        await tab.wait_for("document.querySelector('#model')")
        rows.append({**await tab.evaluate(PAINT), "usable": usable, "spent": spent})
    print_row("first paint, ms", statistics.median(row["paint"] for row in rows))
    print_row("first paint, best of all, ms", min(row["paint"] for row in rows))
    print_row("field for a message, ms", statistics.median(row["usable"] for row in rows))
    spent = statistics.median(row["spent"] for row in rows)
    print_row("the same, processor of the main thread, ms", spent)
    print_row("first load, KB", rows[-1]["bytes"] / 1_000)
    print_row("first load, requests", rows[-1]["requests"])


async def wheel(tab: Tab, delta: int, times: int) -> None:
    """Turn the mouse wheel, once a frame."""
    for _ in range(times):
        place: dict[str, Any] = {"x": 600, "y": 400, "deltaX": 0, "deltaY": delta}
        await tab.call("Input.dispatchMouseEvent", type="mouseWheel", **place)
        await asyncio.sleep(1 / 60)


async def measure_scrolling(tab: Tab, daemon: Daemon) -> None:
    """Scroll through a long conversation by the wheel, and jump through it."""
    identity = save_long(daemon.premises.store, MESSAGES)
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    await tab.visit("about:blank")
    await tab.visit(f"{daemon.url}/page/#/talk/{identity}")
    await tab.wait_for(f"document.querySelector('#message-{MESSAGES - 1}')")
    print_row("last of 5,000 messages, ms", await tab.evaluate("performance.now()"))
    await asyncio.sleep(2)
    await tab.evaluate(TAKE)
    longest = 0.0
    for name, act in (
        ("wheel up 60,000 px", wheel(tab, -400, 150)),
        ("wheel down 40,000 px", wheel(tab, 400, 100)),
        ("to the middle", tab.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")),
        ("to the beginning", tab.evaluate("scrollTo(0, 0)")),
        ("wheel down 120,000 px", wheel(tab, 800, 150)),
    ):
        before = await read_processor(tab)
        await act
        await asyncio.sleep(0.5)
        spent = await read_processor(tab) - before
        told = await tab.evaluate(TAKE)
        longest = max(longest, told["longest"])
        frames = f"frames {told['median']:.0f} / {told['late']:.0f} / {told['worst']:.0f} ms"
        print(
            f"{name:42} {frames}, {told['tasks']} long tasks, {told['elements']:,} elements, "
            f"processor {spent / told['frames']:.1f} ms a frame"
        )
    print_row("longest task, ms", longest)


async def _main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        async with serving(place, seconds=600) as daemon, open_browser(place) as tab:
            await tab.look()
            await tab.call("Performance.enable", timeDomain="threadTicks")
            await measure_paint(tab, daemon)
            await measure_scrolling(tab, daemon)


if __name__ == "__main__":
    asyncio.run(_main())
