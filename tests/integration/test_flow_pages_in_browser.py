"""That a real browser draws the page of a flow, shows what was said, and runs nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_tasks import compose_task
from support.screens.browsers import Tab, open_browser
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, NodeStartedEvent
from vibe_llms.flows import UniversalAdapter
from vibe_llms.flows.run_pages import read_run_page
from vibe_llms.foundation.files import replace_file

pytestmark = pytest.mark.browser

ATTACK = """</script><script>document.title = "CHANGED"</script><!-- <script> \u2028\u2029
<img src=x onerror='document.title = "CHANGED"'>
<img src="https://example.org/x.png"> ![x](https://example.org/x.png)
<meta http-equiv="refresh" content="0;url=data:text/html,CHANGED">
"""

DIAGRAM = """
    START --> P0["Ask <b>it</b>"] --> C{ok?}
    C -->|good| END
    C -->|bad| P1[Mend]
    P1 --> P0
    click P0 href "https://example.org/" "a link"
"""

IS_DRAWN = "document.documentElement.dataset.drawn"


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with open_browser(tmp_path) as opened:
        await opened.look()
        yield opened


def compose(**parts: Any) -> dict[str, Any]:
    """A task whose model says what it is asked, and is asked to do harm."""
    task = compose_task(DIAGRAM, "{{said}}", "mend", variables={"said": f"good {ATTACK}"}, **parts)
    task["goal"]["description"] = "Be kind"
    return task


async def write_page(folder: Path) -> Path:
    """Runs that task, and writes its page."""
    store = MemoryStore()
    result = await UniversalAdapter(store=store).execute(compose())
    path = folder / "run.html"
    path.write_text(read_run_page(store, result.run_id), encoding="utf-8")
    return path


SHOWN = (
    "Array.from(document.querySelectorAll('.node-details')).filter(e => e.offsetHeight)"
    ".map(e => e.querySelector('h2').textContent).join()"
)
"""The heading of the node that is shown."""


async def survey_shown(tab: Tab) -> str:
    """The same of a page that does not reload itself."""
    return str(await tab.evaluate(SHOWN))


async def test_a_diagram_is_drawn_and_its_nodes_say_what_was_said(tab: Tab, tmp_path: Path) -> None:
    """With a click and with the keyboard; states are classes of what is drawn."""
    await tab.open(await write_page(tmp_path))
    await tab.wait_for(IS_DRAWN)

    nodes = "Array.from(document.querySelectorAll('#drawing svg .node'))"
    assert await tab.evaluate(f"{nodes}.length") == 5
    assert await tab.evaluate(f"{nodes}.filter(e => e.matches('.flow-done')).length") == 4
    assert await tab.evaluate(f"{nodes}.filter(e => e.matches('.flow-unreached')).length") == 1
    assert (await survey_shown(tab)).startswith("Ask")

    await tab.evaluate(f"{nodes}[4].dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    assert await survey_shown(tab) == "Mend"
    assert await tab.evaluate("location.hash") == "#node-4"
    assert await tab.evaluate(f"{nodes}[4].getAttribute('aria-label')") == "Mend: never reached"

    await tab.evaluate(f"{nodes}[1].focus()")
    await tab.press("Enter")
    assert (await survey_shown(tab)).startswith("Ask")
    said = await tab.evaluate("document.querySelector('#visit-1').innerText")
    assert said.count("good </script>") == 2  # asked, and answered

    await tab.evaluate("document.querySelector('.visits a[href=\"#visit-2\"]').click()")
    assert await survey_shown(tab) == "ok?"


async def test_a_diagram_zooms_fits_and_moves(tab: Tab, tmp_path: Path) -> None:
    """With buttons, keys, the wheel and by dragging, which selects nothing."""
    await tab.look(width=700, height=420)
    await tab.open(await write_page(tmp_path))
    await tab.wait_for(IS_DRAWN)
    drawing = "document.querySelector('#drawing')"
    picture = f"{drawing}.querySelector('svg').getBoundingClientRect()"

    async def press(label: str) -> None:
        await tab.evaluate(f"document.querySelector('.zoom [aria-label=\"{label}\"]').click()")

    await press("Original size")
    whole = await tab.evaluate(f"{picture}.width")
    await press("Larger")
    assert await tab.evaluate(f"{picture}.width") == pytest.approx(1.25 * whole, rel=0.01)
    await tab.evaluate(f"{drawing}.focus()")
    await tab.press("-")
    await tab.press("-")
    assert await tab.evaluate(f"{picture}.width") == pytest.approx(0.8 * whole, rel=0.01)
    await tab.press("0")
    fits = f"{drawing}.scrollHeight <= {drawing}.clientHeight + 1"
    assert await tab.evaluate(fits)
    for _ in range(9):
        await press("Larger")
    assert not await tab.evaluate(fits)

    shown = await survey_shown(tab)
    box = await tab.evaluate(f"(({{x, y}}) => [x, y])({drawing}.getBoundingClientRect())")
    before = await tab.evaluate(f"[{drawing}.scrollLeft, {drawing}.scrollTop]")
    places = [(200, 150), (150, 120), (80, 50)]
    for kind, (x, y) in zip(
        ("mousePressed", "mouseMoved", "mouseMoved", "mouseReleased"),
        [places[0], *places[1:], places[-1]],
        strict=True,
    ):
        button = {"button": "left", "buttons": 1, "clickCount": 1}
        where = {"x": box[0] + x, "y": box[1] + y}
        await tab.call("Input.dispatchMouseEvent", type=kind, **where, **button)
    after = await tab.evaluate(f"[{drawing}.scrollLeft, {drawing}.scrollTop]")
    assert [new - old for new, old in zip(after, before, strict=True)] == [120, 100]
    assert await survey_shown(tab) == shown
    assert tab.complaints == []
    await tab.look()


async def test_a_page_asks_nobody_and_nothing_in_it_acts(tab: Tab, tmp_path: Path) -> None:
    """Whatever was said: it is shown, and the browser has not a word of complaint."""
    path = await write_page(tmp_path)

    await tab.open(path)
    await tab.wait_for(IS_DRAWN)
    await tab.evaluate(
        "document.querySelector('#drawing svg .node a, #drawing svg a')?.dispatchEvent("
        "new MouseEvent('click', {bubbles: true, cancelable: true}))"
    )

    assert tab.requests == [path.as_uri()]
    assert tab.complaints == []
    assert await tab.evaluate("document.querySelectorAll('#drawing a').length") == 0
    assert await tab.evaluate("document.title") == "Be kind"
    assert (
        await tab.evaluate("document.querySelectorAll('img, iframe, meta[http-equiv]').length") == 1
    )


async def test_no_label_of_a_diagram_acts(tab: Tab, tmp_path: Path) -> None:
    """HTML in it may be drawn by Mermaid, but not what it would do."""
    store = MemoryStore()
    label = (
        "<img src='https://example.org/' onerror='window.harm=1'><b onclick='window.harm=1'>x</b>"
    )
    task = compose_task(f'START --> P0["{label}"] --> END', "hello")
    result = await UniversalAdapter(store=store).execute(task)
    path = tmp_path / "run.html"
    path.write_text(read_run_page(store, result.run_id), encoding="utf-8")

    await tab.open(path)
    await tab.wait_for(IS_DRAWN)
    await tab.evaluate(
        "document.querySelectorAll('#drawing *').forEach(e => e.dispatchEvent(new Event('click')))"
    )

    assert tab.requests == [path.as_uri()]
    assert await tab.evaluate("window.harm") is None
    assert await tab.evaluate("document.querySelectorAll('#drawing svg .node').length") == 3
    assert await tab.evaluate("document.querySelectorAll('#drawing img').length") == 0


async def test_a_policy_forbids_to_fetch_and_to_run_more(tab: Tab, tmp_path: Path) -> None:
    """Were something not escaped after all, it would do no harm."""
    await tab.open(await write_page(tmp_path))
    await tab.wait_for(IS_DRAWN)

    fetched = await tab.evaluate(
        "fetch('data:text/plain,x').then(() => 'fetched', () => 'refused')"
    )
    await tab.evaluate(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.harm = 1';"
        "document.body.append(s); const i = new Image(); i.src = 'https://example.org/x.png';"
        "document.body.append(i); })()"
    )

    assert fetched == "refused"
    assert await tab.evaluate("window.harm") is None
    assert not [each for each in tab.requests if each.startswith("http")]


async def test_a_page_of_a_run_on_its_way_follows_it(tab: Tab, tmp_path: Path) -> None:
    """It loads itself again, what was chosen stays chosen, and at the end it rests."""
    store, path = MemoryStore(), tmp_path / "live.html"
    store.create("run", ConversationMetadata())
    store.create("visit", ConversationMetadata())
    log = store.open_log("run")
    log.claim()  # as a run that works does; without, it would have broken off

    def write() -> None:
        replace_file(path, read_run_page(store, "run").encode())  # it may be loaded meanwhile

    log.append("run", FlowStartedEvent(run_id="run", task=compose()))
    write()
    await tab.open(path)
    await tab.wait_for(IS_DRAWN)
    nodes = "Array.from(document.querySelectorAll('#drawing svg .node'))"
    click = "dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    # What is chosen while a page is already on its way out is chosen on that page alone.
    is_young = "performance.now() < JSON.parse(document.getElementById('data').text).interval_ms"
    await tab.wait_for(f"{IS_DRAWN} && {is_young} && ({nodes}[1].focus() || {nodes}[1].{click})")

    log.append("run", NodeStartedEvent(node="P0", visit=1, conversation_id="visit"))
    write()
    await tab.wait_for("document.querySelectorAll('#drawing .flow-running').length")
    await tab.wait_for("document.activeElement?.dataset?.anchor === 'node-1'")
    await tab.wait_for(f"{SHOWN}.startsWith('Ask')")

    log.append("run", FlowEndedEvent(run_id="run", reason="cancelled", node="P0"))
    write()
    await tab.wait_for("document.querySelectorAll('#drawing .flow-waiting').length")
    await tab.wait_for(f"{SHOWN}.startsWith('Ask')")
    assert await tab.evaluate("document.getElementById('pause')") is None
    assert tab.complaints == []


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (390, False)])
async def test_a_page_fits_screens_of_all_kinds(
    tab: Tab, tmp_path: Path, width: int, dark: bool
) -> None:
    """Nothing but the diagram and tables is wider than a phone; in the dark it is dark."""
    await tab.look(width=width, dark=dark)
    await tab.open(await write_page(tmp_path))
    await tab.wait_for(IS_DRAWN)

    assert await tab.evaluate("document.documentElement.scrollWidth") == width
    paper = await tab.evaluate("getComputedStyle(document.body).backgroundColor")
    fill = await tab.evaluate(
        "getComputedStyle(document.querySelector('#drawing .flow-done .label-container')).fill"
    )
    brightness = [sum(map(int, each[4:-1].split(","))) for each in (paper, fill)]
    assert all((each < 300) is dark for each in brightness)
