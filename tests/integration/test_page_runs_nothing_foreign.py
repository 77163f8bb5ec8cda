"""Nothing that a model, a tool, a title, a label or a file name says is executed by a browser."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.daemons.run_daemons import serving
from support.runs.acting import invoke, say
from support.screens.browsers import Tab, open_browser
from vibe_llms import Conversation
from vibe_llms.invocables import produce_invoker
from vibe_llms.messages.canisters import SupervisorCanister
from vibe_llms.messages.contents import FileContent, ImageContent

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

HOSTILE = [
    "<script>window.executed = 1</script>",
    "</script></textarea></title><script>window.executed = 1</script>",
    "<img src=x onerror='window.executed = 1'>",
    "<svg/onload=window.executed=1><animate onbegin=window.executed=1 attributeName=x>",
    "<iframe srcdoc='<script>parent.executed = 1</script>'></iframe>",
    "<a href='javascript:window.executed=1' autofocus onfocus=window.executed=1>x</a>",
    "[a link](javascript:window.executed=1)",
    "[a link](JaVaScRiPt&colon;window.executed=1)",
    "[a link](<java\tscript:window.executed=1>)",
    "[a link](data:text/html;base64,PHNjcmlwdD5wYXJlbnQuZXhlY3V0ZWQ9MTwvc2NyaXB0Pg==)",
    "[a link](vbscript:x) <javascript:window.executed=1> [a][b]",
    "[a link](ms-settings:x) [a link](file:///etc/passwd) <web+x:y>",
    "[b]: javascript:window.executed=1 'title\" onmouseover=window.executed=1'",
    '![picture](https://example.org/x.png" onerror=window.executed=1)',
    "![picture](javascript:window.executed=1) ![](https://example.org/pixel.gif)",
    '[title](https://example.org/ "x\' onclick=window.executed=1 style=color:red")',
    '```js"><img/src=x/onerror=window.executed=1>\nlet a = "<img onerror=window.executed=1>";\n```',
    "```html\n<script>window.executed = 1</script><style>*{display:none}</style>\n```",
    "`<img src=x onerror=window.executed=1>` ${window.executed = 1} {{window.executed=1}}",
    "$\\href{javascript:window.executed=1}{x}$ and $\\htmlStyle{position:fixed}{x}$",
    "$$\\includegraphics{https://example.org/x.png} \\url{javascript:window.executed=1}$$",
    "$\\text{<img src=x onerror=window.executed=1>}$",
    "| a<img src=x onerror=window.executed=1> |\n| :-: |\n| <style>*{display:none}</style> |",
    "# <b onclick=window.executed=1>x</b>\u202e\u2066 <math><mi//xlink:href='javascript:x'>",
    "<meta http-equiv=refresh content='0;url=https://example.org/'><base href=//example.org>",
    "<form action=javascript:window.executed=1><input type=submit autofocus></form>",
    "&lt;script&gt;window.executed = 1&lt;/script&gt; \\<script>window.executed=1</script>",
    "__proto__ constructor [x](__proto__) ```__proto__\nx\n```",
]
TEXT = "\n\n".join(HOSTILE)
SHORT = "<img src=x onerror='window.executed=1'>\"'`<script>window.executed=1</script>"
UNSAFE = """Array.from(document.querySelectorAll('body *:not(.top svg)')).filter((each) =>
  ['SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'BASE', 'META', 'STYLE', 'svg'].includes(each.tagName)
  || (each.tagName === 'IMG' && !/^blob:/.test(each.src) && each.src !== '')
  || (each.tagName === 'FORM' && each.hasAttribute('action'))
  || (each.tagName === 'A' && each.href && !/^(https?|mailto):/.test(each.href))
  || Array.from(each.attributes).some(({ name, value }) =>
    name.startsWith('on') || name === 'srcdoc' || (name === 'style' && each.id !== 'prompt'
      && !/^((top|left|right|width|height|--depth): [\\d.]+(px|%)?; ?)*$/.test(value)))
).map((each) => each.outerHTML.slice(0, 200))"""

LAST_ANSWER = """Array.from(document.querySelectorAll('.message.assistant'))
  .some((each) => each.ariaPosInSet === each.ariaSetSize)"""


def look(place: str) -> str:
    """Look at a place. <img src=x onerror='window.executed=1'>"""
    return TEXT


def pay(to: str) -> str:
    """Pays. <img src=x onerror='window.executed=1'>"""
    return to


TOOLS = [produce_invoker(look), produce_invoker(pay, effect="once", needs_approval=True)]


@pytest_asyncio.fixture(loop_scope="module")
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    """A page."""
    async with open_browser(tmp_path / "browser") as tab:
        await tab.look()
        yield tab


async def ensure_harmless(tab: Tab, *, address: str) -> None:
    """Check that the page has executed nothing, contains nothing unsafe, and asked only its host.

    The policy blocks what would be executed all the same, and reports it as a complaint.
    """
    assert await tab.evaluate("window.executed") is None
    assert await tab.evaluate(UNSAFE) == []
    # a conversation without a run has no page of one
    assert [each for each in tab.complaints if "404" not in each] == []
    own = (address, "blob:", "about:", "data:image/svg+xml")  # icons of the browser's own fields
    assert [url for url in tab.requests if not url.startswith(own)] == []


async def test_nothing_that_a_model_or_a_tool_says_is_executed(tab: Tab, tmp_path: Path) -> None:
    turns = [
        [{"reasoning": TEXT}, say(TEXT), invoke("look", place=TEXT), invoke(SHORT, place=SHORT)],
        [say(TEXT), invoke("pay", to=TEXT)],
        [say(TEXT)],
    ]
    async with serving(tmp_path, *TOOLS, seconds=120) as daemon:
        run_id = await daemon.start(*turns)
        await daemon.premises.wait(run_id, "waiting")
        await tab.visit(f"{daemon.url}/page/#/talk/{run_id}")
        await tab.wait_for("document.querySelector('.markdown .hljs-name')")
        await tab.wait_for("document.querySelector('.formula math')")
        await tab.evaluate(
            "document.querySelectorAll('details').forEach((each) => each.open = true)"
        )
        await ensure_harmless(tab, address=daemon.url)

        await tab.click(".approval button.main")  # the last answer streams
        await tab.wait_for(LAST_ANSWER)  # earlier ones may be too far away to be drawn
        await ensure_harmless(tab, address=daemon.url)
        for place, shown in (
            (f"#/runs/{run_id}", "document.querySelector('.log li pre')"),
            ("#/talk", "document.querySelector('#prompt')"),
        ):
            await tab.evaluate(f"location.hash = {json.dumps(place)}")
            await tab.wait_for(shown)
            await ensure_harmless(tab, address=daemon.url)
        await tab.click("#model")
        await tab.wait_for("document.activeElement.id === 'choice'")
        await tab.type(SHORT)
        await tab.wait_for_text("use this name", "#choices")
        await tab.press("Enter")
        await tab.wait_for_text("window.executed=1", "#model")
        await ensure_harmless(tab, address=daemon.url)


async def test_no_title_and_no_file_name_is_executed(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, seconds=120) as daemon:
        conversation = Conversation()
        conversation.add_canister(SupervisorCanister(TEXT))
        file = FileContent(data=b"<script>", mime_type="text/html", name=SHORT)
        picture = ImageContent(data=b"GIF89a", mime_type="image/gif", name=SHORT)
        elsewhere = ImageContent(url="https://example.org/x.png", mime_type="image/png")
        conversation.add_user_message([TEXT, file, picture, elsewhere])
        conversation.save(daemon.premises.store)
        path = f"/conversations/{conversation.id}"
        assert (await daemon.ask("PATCH", path, {"name": SHORT}))[0] == 200
        for place, shown in (
            (f"#/talk/{conversation.id}", ".thread h1"),
            (f"#/talk/{conversation.id}", f"#recent-{conversation.id}"),
            ("#/conversations", ".rows .title"),
        ):
            await tab.visit(f"{daemon.url}/page/?{shown[1:]}{place}")
            await tab.wait_for_text(SHORT, shown)
            await ensure_harmless(tab, address=daemon.url)
        assert SHORT in await tab.evaluate("document.body.textContent")


async def test_a_policy_that_is_broken_is_noticed(tab: Tab, tmp_path: Path) -> None:
    """The checks above see an element that is unsafe, and one that the policy blocks."""
    async with serving(tmp_path, seconds=120) as daemon:
        await tab.visit(f"{daemon.url}/page/#/runs")
        await tab.wait_for("document.querySelector('main h1')")
        await ensure_harmless(tab, address=daemon.url)
        await tab.evaluate("document.body.append(document.createElement('img'))")
        await tab.evaluate("document.querySelector('img').src = 'https://example.org/x.png'")
        with pytest.raises(AssertionError):
            await ensure_harmless(tab, address=daemon.url)
