"""Files that were attached to a message and not sent survive a reload of the page, in a browser."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.daemons.run_daemons import serving
from support.gateways.authorizers import KeyAuthorizer
from support.screens.browsers import Tab
from support.screens.talking import FIELD, PAY, PIXEL, open_talk, read_id
from vibe_llms import Conversation

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

LIST = "Array.from(document.querySelectorAll('.attachments bdi'), (each) => each.textContent)"
SAID = "document.querySelector('#said').textContent"
DATABASE = """(async () => {
  const wait = (request) =>
    new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const names = (await indexedDB.databases()).map((each) => each.name);
  if (!names.includes('vibe-drafts')) return [];
  const database = await wait(indexedDB.open('vibe-drafts'));
  const store = database.transaction('files', 'readwrite').objectStore('files');
  const rows = await wait(store.getAll());
  CHANGE
  database.close();
  return rows.flatMap((row) => row.files.map((file) => file.name)).sort();
})()"""
"""Return the names of the files in the browser's storage."""
STORED = DATABASE.replace("CHANGE", "")
AGE = DATABASE.replace(
    "CHANGE", "for (const row of rows) await wait(store.put({ ...row, moment: 0 }));"
)
"""Make all stored files old."""
ASKS = "!dispatchEvent(new Event('beforeunload', { cancelable: true }))"
"""Whether the page asks before it is left."""


async def attach(tab: Tab, *names: str, megabytes: int = 0) -> None:
    """Paste files; a picture has a pixel, and others are as large as wished."""
    script = f"""(() => {{
      const data = new DataTransfer();
      const pixel = Uint8Array.from(atob({json.dumps(PIXEL)}), (each) => each.charCodeAt(0));
      for (const name of {json.dumps(names)}) {{
        const isPicture = name.endsWith('.png');
        const bytes = isPicture ? pixel : new Uint8Array({megabytes} << 20);
        data.items.add(new File([bytes], name, isPicture ? {{ type: 'image/png' }} : {{}}));
      }}
      const options = {{ bubbles: true, cancelable: true, clipboardData: data }};
      document.querySelector('#prompt').dispatchEvent(new ClipboardEvent('paste', options));
    }})()"""
    await tab.evaluate(script)


async def reload(tab: Tab) -> None:
    """Load the page again, and wait for the new one."""
    await tab.evaluate("window.isOld = true")
    await tab.call("Page.reload")
    await tab.wait_for("!window.isOld && document.querySelector('h1')?.textContent")


async def wait_for_list(tab: Tab, *names: str) -> None:
    """Wait until the field for the next message has some attachments, and no others."""
    await tab.wait_for(f"{LIST}.join() === {json.dumps(','.join(names))}")


async def wait_until_stored(tab: Tab, *names: str) -> None:
    """Wait until the browser has stored some files, and no others."""
    async with asyncio.timeout(60):
        while True:
            if await tab.evaluate(STORED) == sorted(names):
                return
            await asyncio.sleep(0.02)


def check_complaints(tab: Tab) -> None:
    """Require a silent console, but for a missing run, and a reload without a user's gesture."""
    expected = ("404", "beforeunload")
    assert [each for each in tab.complaints if not any(word in each for word in expected)] == []


async def test_files_of_each_draft_survive_a_reload_until_they_are_sent_or_removed(
    tab: Tab, tmp_path: Path
) -> None:
    async with serving(tmp_path, PAY) as daemon:
        old = Conversation()
        old.add_user_message("Old.")
        old.save(daemon.premises.store)
        await open_talk(tab, daemon, tmp_path)
        await attach(tab, "a.png", "a<b>.md")
        await wait_until_stored(tab, "a.png", "a<b>.md")
        await tab.wait_for(f"!({ASKS})")  # nothing would be lost
        await tab.evaluate(f"location.hash = '#/talk/{old.id}'")
        await tab.wait_for_text("Old.", ".message.user")
        await wait_for_list(tab)
        await attach(tab, "other.bin")
        await wait_until_stored(tab, "a.png", "a<b>.md", "other.bin")

        await reload(tab)
        await tab.wait_for_text("Old.", ".message.user")
        await wait_for_list(tab, "other.bin")
        await tab.click(".attachments button")
        await wait_until_stored(tab, "a.png", "a<b>.md")
        await tab.evaluate("location.hash = '#/talk'")
        await wait_for_list(tab, "a.png", "a<b>.md")
        assert await tab.evaluate("document.querySelector('.attachments img').naturalWidth") == 1
        await tab.click("#send")
        identity = await read_id(tab)
        await tab.wait_for_text("You said", ".message.assistant")
        await wait_until_stored(tab)
        await wait_for_list(tab)
        store = daemon.premises.store
        picture, text = Conversation.restore(store, identity).canisters[0].content
        assert (picture.name, picture.mime_type) == ("a.png", "image/png")  # type: ignore[union-attr]
        assert text.text.startswith("a<b>.md:")  # type: ignore[union-attr]
        await reload(tab)
        await tab.wait_for_text("You said", ".message.assistant")
        assert await tab.evaluate(LIST) == []
        check_complaints(tab)


async def test_the_page_says_which_files_of_a_draft_it_does_not_keep(
    tab: Tab, tmp_path: Path
) -> None:
    async with serving(tmp_path, PAY) as daemon:
        old = Conversation()
        old.add_user_message("Old.")
        old.save(daemon.premises.store)
        await open_talk(tab, daemon, tmp_path)
        await attach(tab, "one.bin", "two.bin", megabytes=19)
        await wait_until_stored(tab, "one.bin", "two.bin")
        await tab.evaluate(f"location.hash = '#/talk/{old.id}'")
        await tab.wait_for_text("Old.", ".message.user")
        await attach(tab, "three.bin", megabytes=3)
        await tab.wait_for(f"{SAID}.endsWith('a reload would lose three.bin.')")
        await wait_for_list(tab, "three.bin")  # it can be sent
        assert await tab.evaluate(ASKS)
        await attach(tab, "a.png")
        await wait_until_stored(tab, "a.png", "one.bin", "two.bin")

        await reload(tab)
        await wait_for_list(tab, "a.png")
        await tab.wait_for(f"{SAID}.includes('three.bin')")
        await tab.evaluate(AGE)
        await tab.evaluate("location.hash = '#/talk'")
        await wait_until_stored(tab, "one.bin", "two.bin")
        check_complaints(tab)


async def test_a_browser_that_stores_no_files_is_reported_once(tab: Tab, tmp_path: Path) -> None:
    refuse = "IDBFactory.prototype.open = () => { throw new DOMException('no', 'SecurityError'); }"
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await tab.evaluate(refuse)
        await attach(tab, "a.png")
        await tab.wait_for(f"{SAID}.includes('refuses to store files')")
        assert await tab.evaluate(ASKS)
        await attach(tab, "b.png")
        await tab.wait_for(f"{SAID} === 'Attached b.png.'")
        await wait_for_list(tab, "a.png", "b.png")
        assert await tab.evaluate(ASKS)
        check_complaints(tab)


async def test_a_message_is_sent_though_the_storage_never_answers(tab: Tab, tmp_path: Path) -> None:
    """As in browsers whose databases do not open before they are restarted."""
    hang = """(() => {
      const { setTimeout } = window;
      window.setTimeout = (perform, delay) => setTimeout(perform, delay === 10000 ? 0 : delay);
      IDBFactory.prototype.open = () => new EventTarget();
    })()"""
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await attach(tab, "a.png")
        await wait_until_stored(tab, "a.png")
        added = await tab.call("Page.addScriptToEvaluateOnNewDocument", source=hang)
        await reload(tab)
        await tab.call("Page.removeScriptToEvaluateOnNewDocument", **added)
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await tab.type("Hello")
        await tab.press("Enter")
        await tab.wait_for_text("You said: Hello", ".message.assistant")
        check_complaints(tab)


async def test_another_key_removes_the_files_of_drafts(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY, authorizer=KeyAuthorizer()) as daemon:
        await tab.visit(f"{daemon.url}/page/#key=ann")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await attach(tab, "secret.png")
        await wait_until_stored(tab, "secret.png")
        await tab.evaluate("location.hash = '#/runs'")
        await tab.wait_for("document.querySelector('#prompt') === null")
        await reload(tab)  # a view that needs no drafts
        await tab.click("#show-key")
        await tab.wait_for("document.activeElement.id === 'asked-key'")
        await tab.type("bob")
        await tab.press("Enter")
        await wait_until_stored(tab)
        await tab.evaluate("location.hash = '#/talk'")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await tab.wait_for(f"{FIELD} === ''")
        assert await tab.evaluate(LIST) == []
