"""Among 10,000 runs, one is found by words and conditions, and a link to the search is shared."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.daemons.run_daemons import serving
from support.runs.planted import plant_many
from support.screens.browsers import Tab, open_browser
from support.stores.disks import HastyDisk
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.index.index import ConversationIndex

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

ROWS = "document.querySelectorAll('.rows li').length"


@pytest_asyncio.fixture(loop_scope="module")
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with open_browser(tmp_path / "browser") as opened:
        yield opened


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, if there is one: 10,000 runs are many files."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        yield Path(path)


async def test_runs_are_searched_filtered_shared_and_opened(
    tab: Tab, tmp_path: Path, folder: Path
) -> None:
    store = DirectoryStore(folder, disk=HastyDisk())
    planted = [*plant_many(store, 10_000)]
    index = ConversationIndex(folder / "conversations", folder / "index.sqlite")
    async with serving(tmp_path, shared=store, conversation_index=index) as daemon:
        await tab.visit(f"{daemon.url}/page/#/runs")
        await tab.wait_for_text("Tell me about question 9999, please.", ".rows")
        assert await tab.evaluate(ROWS) == 50  # a page of them

        # every hundredth is about a heron: two pages
        await tab.evaluate("document.querySelector('[aria-label=\"Search runs\"]').focus()")
        await tab.type("HERON tell")
        await tab.wait_for_text("about a heron", ".rows li")
        await tab.wait_for("location.hash.includes('query=HERON')")
        await tab.wait_for(f"{ROWS} === 50")
        await tab.click("#more")
        await tab.wait_for(f"{ROWS} === 100")
        assert not await tab.evaluate("document.querySelector('#more').offsetParent")
        titles = "Array.from(document.querySelectorAll('.rows .title'), (each) => each.textContent)"
        assert {*await tab.evaluate(titles)} == {"Tell me about a heron, please."}
        last = f"document.querySelector('.rows li:last-child a').id === 'run-{planted[42]}'"
        assert await tab.evaluate(last)

        # those that failed, asked of one model
        await tab.click(".filters summary")
        for field, value in (("state", "failed"), ("model", "claude")):
            place = f"document.getElementById('{field}')"
            await tab.evaluate(f"{place}.value = '{value}'")
            await tab.evaluate(f"{place}.dispatchEvent(new Event('change', {{ bubbles: true }}))")
        expected = [n for n in range(42, 10_000, 100) if n % 7 == 3 and n % 3 == 0]
        await tab.wait_for(f"{ROWS} === {len(expected)}")
        assert await tab.evaluate("document.querySelectorAll('.mark.failed').length") == len(
            expected
        )

        # the address has the search: another tab shows the same
        address = await tab.evaluate("location.href")
        await tab.visit("about:blank")
        await tab.visit(address)
        await tab.wait_for(f"{ROWS} === {len(expected)}")
        assert await tab.evaluate("document.querySelector('#query').value") == "HERON tell"
        assert await tab.evaluate("document.querySelector('#state').value") == "failed"
        await tab.click(f"#run-{planted[expected[0]]}")
        await tab.wait_for_text("It is known.", ".message.assistant")
        await tab.wait_for_text("about a heron", "h1")

        # a time that was chosen here is the same moment in the address
        await tab.evaluate("history.back()")
        await tab.wait_for(f"{ROWS} === {len(expected)}")
        since = "document.getElementById('since')"
        await tab.evaluate(f"{since}.value = '2026-11-24T12:00'")
        await tab.evaluate(f"{since}.dispatchEvent(new Event('change', {{ bubbles: true }}))")
        await tab.wait_for("/since=2026-11-2[345]T\\d\\d%3A00%3A00.000Z/.test(location.hash)")
        await tab.wait_for(f"{ROWS} > 0 && {ROWS} < {len(expected)}")
        shared = await tab.evaluate("location.href")
        await tab.visit("about:blank")
        await tab.visit(shared)
        await tab.wait_for(f"{since}?.value === '2026-11-24T12:00'")
        await tab.evaluate(f"{since}.value = ''")
        await tab.evaluate(f"{since}.dispatchEvent(new Event('change', {{ bubbles: true }}))")
        await tab.wait_for(f"{ROWS} === {len(expected)}")
        await tab.click(f"#run-{planted[expected[0]]}")
        await tab.wait_for_text("It is known.", ".message.assistant")

        # back leads to the search, and an unlucky one says so
        await tab.evaluate("history.back()")
        await tab.wait_for(f"{ROWS} === {len(expected)}")
        await tab.evaluate("document.querySelector('#query').value = 'unicorn'")
        await tab.evaluate("document.querySelector('#query').focus()")
        await tab.press("Enter")
        await tab.wait_for_text("No run matches.")
        await tab.click("#clear")
        await tab.wait_for(f"{ROWS} === 50")
        assert tab.complaints == []
