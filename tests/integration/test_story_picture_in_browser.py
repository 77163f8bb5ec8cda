"""Story: a person drops a picture on the page and asks about it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from support.daemons.run_daemons import serving
from support.screens.browsers import Tab
from support.screens.talking import PIXEL, open_talk, read_id, send
from vibe_llms import Conversation

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

NAME = "<img src=x onerror='document.title=1'>.png"
DROP = f"""(() => {{
  const data = new DataTransfer();
  const bytes = Uint8Array.from(atob({json.dumps(PIXEL)}), (each) => each.charCodeAt(0));
  data.items.add(new File([bytes], {json.dumps(NAME)}, {{ type: 'image/png' }}));
  const options = {{ bubbles: true, cancelable: true, dataTransfer: data }};
  const place = document.querySelector('main h1');
  place.dispatchEvent(new DragEvent('dragover', options));
  window.dropping = document.querySelector('.composer').matches('.dropping');
  place.dispatchEvent(new DragEvent('drop', options));
}})()"""


async def test_a_dropped_picture_is_asked_about(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await tab.evaluate(DROP)  # anywhere on the page, which a browser would leave otherwise
        assert await tab.evaluate("window.dropping")
        await tab.wait_for("document.querySelector('.attachments img')?.naturalWidth === 1")
        assert ("button", f"Remove {NAME}") in [node[:2] for node in await tab.survey_tree()]
        await send(tab, "What is it?")
        await tab.wait_for("document.querySelector('#message-0 img')?.naturalWidth === 1")
        await tab.wait_for_text("You said: What is it?", "#message-1")
        store, identity = daemon.premises.store, await read_id(tab)
        picture, text = Conversation.restore(store, identity).canisters[0].content
        assert store.contents.read(picture.content_id) == base64.b64decode(PIXEL)
        assert text.text == "What is it?"

        # The picture is there after a reload, has a name, and can be seen in full.
        await tab.evaluate("window.isOld = true, location.reload()")
        await tab.wait_for(
            "!window.isOld && document.querySelector('#message-0 img')?.naturalWidth === 1"
        )
        names = [name for role, name, _ in await tab.survey_tree() if role == "image"]
        assert names == [f"Picture {NAME}"]
        await tab.click("#message-0 .picture button")
        await tab.wait_for("document.querySelector('dialog[open] img')?.naturalWidth === 1")
        await tab.press("Escape")
        await tab.wait_for("!document.querySelector('dialog[open]')")
        assert await tab.evaluate("document.title") != "1"
        assert await tab.evaluate("document.querySelectorAll('img[onerror]').length") == 0
        assert [each for each in tab.complaints if "404" not in each] == []
