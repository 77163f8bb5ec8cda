"""Conversations are begun, continued, stopped and forked on the page, in a real browser."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from support.daemons.run_daemons import serving
from support.gateways.authorizers import KeyAuthorizer
from support.runs.acting import say
from support.runs.hosted import Premises
from support.runs.scripting import hold_slow_answers, write_script
from support.screens.browsers import Tab
from support.screens.talking import (
    ARTICLES,
    FIELD,
    PAY,
    PIXEL,
    SCRIPT,
    Tap,
    open_talk,
    read_id,
    send,
)
from vibe_llms import Conversation, ImageContent, TextualContent
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.daemons.agents.viewing import produce_view
from vibe_llms.daemons.arrivals import find_hosts
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.messages.views import text_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

# POST requests are noted, and wait while `held`; others fail that match `broken`.
HOLD = """(() => {
  const send = window.fetch;
  window.posts = [];
  window.fetch = async (url, options = {}) => {
    const isPost = options.method === 'POST';
    if (isPost) window.posts.push({ path: url.pathname, ...JSON.parse(options.body) });
    if (isPost && window.held) await new Promise((go) => (window.release = go));
    if (!isPost && window.broken?.test(url.pathname)) throw new Error('broken');
    return send(url, options);
  };
})()"""
ATTACH = """(() => {
  const data = new DataTransfer();
  data.items.add(new File(['# Later'], 'later.md'));
  const options = { bubbles: true, cancelable: true, clipboardData: data };
  document.querySelector('#prompt').dispatchEvent(new ClipboardEvent('paste', options));
})()"""


async def test_a_conversation_begins_calls_a_tool_and_continues(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await tab.click(".system summary")
        await tab.evaluate("document.querySelector('#system').value = 'Be kind.'")
        await tab.evaluate("document.querySelector('#prompt').focus()")
        await tab.type("Please")
        await tab.press("Enter", shift=True)
        await tab.type("pay")
        await tab.press("Enter")
        identity = await read_id(tab)
        await tab.click(".approval button.main")
        await tab.wait_for_text("Allowed: pay.", ".approval .outcome")
        await tab.wait_for(f"{ARTICLES}.length >= 5")
        for role, text in (
            ("supervisor", "Be kind."),
            ("user", "Please"),
            ("invocation", '"to": "Ann"'),
            ("result", "paid Ann"),
        ):
            await tab.wait_for_text(text, f".message.{role}")
        await tab.wait_for_text("She is owed.", ".message details.reasoning")
        assert not await tab.evaluate("document.querySelector('details.reasoning').open")
        canisters = Conversation.restore(daemon.premises.store, identity).canisters
        assert text_of(canisters[1]) == "Please\npay"
        assert tab.complaints == []
        assert all(url.startswith(daemon.url) for url in tab.requests)


async def test_an_answer_streams_and_another_model_continues(
    tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = Tap()
    hold_slow_answers(monkeypatch, tap.may_go)
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await send(tab, "Hello")
        await tab.wait_for_text("You said: Hello", ".message.assistant")
        await send(tab, "slow")
        await tab.wait_for("!document.querySelector('#stop').hidden")
        await tab.wait_for_text("slow", ".messages .message.user:last-of-type")
        tap.pieces = 3
        await tab.wait_for(
            "/^one t/.test(document.querySelector('.live .text')?.textContent ?? '')"
        )
        assert not await tab.evaluate("document.querySelector('.live').hidden")
        tap.pieces = 1_000
        await tab.wait_for_text("one two three", ".messages > article:last-of-type")
        await tab.wait_for("document.querySelector('#stop').hidden")  # else it gets the message

        await tab.click("#model")
        await tab.wait_for("document.activeElement.id === 'choice'")
        await tab.type("echo")
        await tab.press("Enter")
        await tab.wait_for_text("scripted:echo", "#model")
        await send(tab, "Again")
        await tab.wait_for(f"{ARTICLES}.length === 6")
        identity = await read_id(tab)
        _, run = await daemon.ask("GET", f"/runs/{identity}")
        assert run["model"] == "scripted:echo"
        await tab.wait_for("document.querySelector('.pending').childElementCount === 0")
        assert tab.complaints == []


async def test_an_answer_is_drawn_as_markdown(tab: Tab, tmp_path: Path) -> None:
    """Code is colored and can be copied; the libraries are loaded when they are needed."""
    text = (
        "# Title\n\n1. *one*\n2. **two**\n\n| a | b |\n| - | -: |\n| c | d |\n\n"
        "```python\ndef add(): return 1\n```\n\nIt costs $5 or $6. See https://example.org/."
    )
    formula = "So $x^2$, or\n\n$$\\frac{1}{2}$$"
    libraries = ("rendering.js", "formulas.js")

    def is_loaded() -> list[bool]:
        return [any(url.endswith(each) for url in tab.requests) for each in libraries]

    async with serving(tmp_path) as daemon:
        run_id = await daemon.start([say(text)], [say(formula)])
        await daemon.premises.wait(run_id, "ended")
        await tab.visit(f"{daemon.url}/page/#/talk")
        await tab.wait_for("document.querySelector('#prompt')")
        assert is_loaded() == [False, False]
        await tab.evaluate(f"location.hash = '#/talk/{run_id}'")
        for selector, shown in (
            ("h3", "Title"),
            ("ol li em", "one"),
            ("td.right", "d"),
            (".hljs-keyword", "def"),
            ("a[href='https://example.org/']", "https://example.org/"),
            ("p:last-child", "It costs $5 or $6."),
        ):
            await tab.wait_for_text(shown, f".markdown {selector}")
        assert is_loaded() == [True, False]
        permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"]
        await tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await tab.call("Browser.grantPermissions", permissions=permissions)
        await tab.click(".code button")
        await tab.wait_for_text("Copied", ".code button")
        assert await tab.evaluate("navigator.clipboard.readText()") == "def add(): return 1"
        await send(tab, "And?")
        await tab.wait_for("document.querySelectorAll('.formula math').length === 2")
        assert is_loaded() == [True, True]
        assert tab.complaints == []


async def test_a_run_is_stopped_and_asked_again(
    tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = Tap()
    hold_slow_answers(monkeypatch, tap.may_go)
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await send(tab, "slow")
        identity = await read_id(tab)
        await tab.click("#stop")
        await tab.wait_for_text("stopped", ".ending")
        assert (await daemon.premises.wait(identity, "stopped")).state == "stopped"
        tap.pieces = 1_000
        await tab.click("#again")
        await tab.wait_for_text("one two three", ".messages > article:last-of-type")
        await tab.wait_for("document.querySelector('.ending').hidden")


async def test_an_edited_message_and_a_retried_answer_are_forks(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await send(tab, "Hello")
        await tab.wait_for_text("You said: Hello", ".message.assistant")
        first = await read_id(tab)
        await tab.click("#message-0 .edit")
        await tab.wait_for("document.activeElement.closest('.editing')")
        await tab.evaluate("document.activeElement.value = 'Goodbye'")
        await tab.click(".editing button.main")
        await tab.wait_for_text("You said: Goodbye", ".message.assistant")
        second = await read_id(tab)
        await tab.wait_for_text("forked from", ".thread .head")
        await tab.click("#message-1 .retry")
        await tab.wait_for(f"!location.hash.endsWith({json.dumps(second)})")
        await tab.wait_for_text("You said: Goodbye", ".message.assistant")
        third = await read_id(tab)
        store = daemon.premises.store
        texts = [
            [text_of(each) for each in Conversation.restore(store, identity).canisters]
            for identity in (first, second, third)
        ]
        again = ["Goodbye", "You said: Goodbye"]
        assert texts == [["Hello", "You said: Hello"], again, again]
        assert len({first, second, third}) == 3


async def test_a_double_click_makes_one_fork_and_one_run(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await send(tab, "Hello")
        await tab.wait_for_text("You said: Hello", ".message.assistant")
        first = await read_id(tab)
        await tab.evaluate(HOLD)
        for index, button in ((1, ".retry"), (0, ".editing button.main")):
            if index == 0:
                await tab.click("#message-0 .edit")
                await tab.wait_for("document.querySelector('.editing')")
            await tab.evaluate("window.posts.length = 0, window.old = location.hash")
            found = f"document.querySelector('#message-{index} {button}')"
            await tab.evaluate(f"{found}.click(), {found}?.click()")
            await tab.wait_for("location.hash !== window.old")
            await tab.wait_for_text("You said: Hello", ".message.assistant")
            paths = await tab.evaluate("window.posts.map((each) => each.path.split('/').pop())")
            assert paths == ["fork", "runs"]
        _, listed = await daemon.ask("GET", "/conversations")
        assert len(listed["data"]) == 3
        assert first in [each["id"] for each in listed["data"]]


async def test_an_edited_message_keeps_the_order_of_its_contents(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        picture = {"type": "image", "data": PIXEL, "name": "pixel.png"}
        texts = [{"type": "text", "text": each} for each in ("Before", "after")]
        message = {"role": "user", "content": [texts[0], picture, texts[1]]}
        model = f"scripted:{tmp_path / 'script.toml'}"
        _, run = await daemon.ask("POST", "/runs", {"model": model, "input": message})
        await daemon.premises.wait(run["id"], "ended")
        await tab.evaluate(f"location.hash = '#/talk/{run['id']}'")
        await tab.click("#message-0 .edit")
        await tab.wait_for("document.activeElement.value === 'after'")
        await tab.type(" all")
        await tab.click(".editing button.main")
        await tab.wait_for("document.querySelector('.head a[href*=talk]')")
        await tab.wait_for(f"{ARTICLES}.length === 2")
        identity, store = await read_id(tab), daemon.premises.store
        contents = Conversation.restore(store, identity).canisters[0].content
        assert [each.text if each.type == "text" else each.name for each in contents] == [
            "Before",
            "pixel.png",
            "after all",
        ]

        linked = Conversation()
        linked.add_user_message(
            [TextualContent("See:"), ImageContent(url="https://example.org/a.png")]
        )
        linked.save(store)
        await tab.evaluate(f"location.hash = '#/talk/{linked.id}'")
        await tab.wait_for_text("example.org", "#message-0")
        assert await tab.evaluate("document.querySelector('.edit')") is None


async def test_the_page_is_drawn_before_the_models_are_known(tab: Tab, tmp_path: Path) -> None:
    hold = """
      const send = window.fetch;
      window.fetch = async (url, options) => {
        if (url.pathname.endsWith('/models')) await new Promise((go) => (window.release = go));
        return send(url, options);
      };
    """
    async with serving(tmp_path, PAY) as daemon:
        run_id = await daemon.start([say("Done.")])
        await daemon.premises.wait(run_id, "ended")
        added = await tab.call("Page.addScriptToEvaluateOnNewDocument", source=hold)
        try:
            for path, text in (("", "Start a conversation"), (f"#/talk/{run_id}", "Done.")):
                await tab.visit("about:blank")
                await tab.visit(f"{daemon.url}/page/{path}")
                await tab.wait_for_text(text)
                await tab.wait_for("document.activeElement.id === 'prompt'")
                await tab.wait_for("window.release")
                assert await tab.evaluate("document.querySelector('#model, .retry')") is None
                await tab.type("A draft")
                await tab.evaluate("window.release()")
                await tab.wait_for("document.querySelector('#model')")
                assert await tab.evaluate(FIELD) == "A draft"
            await tab.wait_for("document.querySelector('.retry')")
        finally:
            await tab.call("Page.removeScriptToEvaluateOnNewDocument", **added)
        assert tab.complaints == []


async def test_a_draft_survives_a_reload(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await tab.type("A new")
        conversation = Conversation()
        conversation.add_user_message("Old.")
        conversation.save(daemon.premises.store)
        await tab.evaluate(f"location.hash = '#/talk/{conversation.id}'")
        await tab.wait_for_text("Old.", ".message.user")
        assert await tab.evaluate("document.querySelector('#prompt').value") == ""
        await tab.type("An old")
        await tab.call("Page.reload")
        await tab.wait_for("document.querySelector('#prompt')?.value === 'An old'")
        await tab.evaluate("location.hash = '#/talk'")
        await tab.wait_for("document.querySelector('#prompt')?.value === 'A new'")
        tall = "document.querySelector('#prompt').offsetHeight"
        low = await tab.evaluate(tall)
        await tab.type("\n\n\n")
        assert await tab.evaluate(tall) > low


async def test_words_and_files_added_while_a_message_is_sent_stay(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await tab.evaluate(f"{HOLD}, window.held = true")
        await send(tab, "Hello")
        await tab.wait_for("window.release")
        await tab.type(" and then")
        await tab.evaluate("window.held = false, window.release()")
        await tab.wait_for_text("You said: Hello", ".message.assistant")
        await tab.wait_for("document.querySelector('#prompt')")
        assert await tab.evaluate(FIELD) == "and then"

        await tab.evaluate("window.release = null, window.held = true")
        await tab.press("Enter")
        await tab.wait_for("window.release")
        await tab.type(" next")
        await tab.evaluate(ATTACH)
        await tab.wait_for("document.querySelectorAll('.attachments li').length === 1")
        await tab.evaluate("window.held = false, window.release()")
        await tab.wait_for(f"{FIELD} !== 'and then next'")
        assert await tab.evaluate(FIELD) == "next"
        assert await tab.evaluate("document.querySelectorAll('.attachments li').length") == 1
        await tab.press("Enter")
        await tab.wait_for_text("# Later", ".thread")
        await tab.wait_for(f"{FIELD} === ''")
        assert await tab.evaluate("document.querySelectorAll('.attachments li').length") == 0
        assert not await tab.evaluate("Object.keys(sessionStorage).join().includes('draft')")


async def test_a_message_is_sent_once_though_its_page_cannot_be_read(
    tab: Tab, tmp_path: Path
) -> None:
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await send(tab, "Hello")
        await tab.wait_for_text("You said: Hello", ".message.assistant")
        await tab.evaluate(f"{HOLD}, window.broken = /runs|conversations/")
        await send(tab, "Once")
        await tab.wait_for("!document.querySelector('#trouble').hidden")
        await tab.wait_for("window.posts.length === 1")
        assert await tab.evaluate(FIELD) == ""
        await tab.evaluate("window.broken = null")
        await tab.wait_for_text("You said: Once", ".messages > article:last-of-type")
        store, identity = daemon.premises.store, await read_id(tab)
        texts = [text_of(each) for each in Conversation.restore(store, identity).canisters]
        assert texts == ["Hello", "You said: Hello", "Once", "You said: Once"]
        await tab.wait_for("document.querySelector('.pending').childElementCount === 0")


async def test_another_key_shows_no_draft_choice_or_offers_of_the_first(
    tab: Tab, tmp_path: Path
) -> None:
    async with serving(tmp_path, PAY, authorizer=KeyAuthorizer()) as daemon:
        await tab.visit(f"{daemon.url}/page/#key=ann")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await tab.click("#tools")
        await tab.wait_for("document.activeElement.id === 'choice'")
        await tab.press("Enter")
        await tab.wait_for_text("Tools", "#tools")
        await tab.press("Escape")
        await tab.wait_for("document.activeElement.id === 'tools'")
        await tab.evaluate("document.querySelector('#prompt').focus()")
        await tab.type("A secret")
        names = "Object.keys(sessionStorage).map((each) => each.split(' ')[0]).sort().join()"
        assert await tab.evaluate(names) == "vibe-choice,vibe-draft-new,vibe-key"
        await tab.evaluate("document.querySelector('#prompt').isOld = true")
        tab.forget()
        await tab.click("#show-key")
        await tab.wait_for("document.activeElement.id === 'asked-key'")
        await tab.type("bob")
        await tab.press("Enter")
        await tab.wait_for("document.querySelector('#prompt')?.isOld === undefined")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        assert await tab.evaluate(FIELD) == ""
        assert await tab.evaluate(names) == "vibe-key"
        await tab.wait_for_text("No tools", "#tools")
        assert f"{daemon.url}/models" in tab.requests


async def test_a_key_entered_once_serves_all_requests_of_the_page(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY, authorizer=KeyAuthorizer()) as daemon:
        await tab.visit(f"{daemon.url}/page/#/talk")
        await tab.wait_for("document.activeElement.id === 'asked-key'")
        await tab.type("ann")
        await tab.press("Enter")
        await tab.wait_for("document.querySelector('#model')")
        assert not await tab.evaluate("document.querySelector('#asking').open")
        assert await tab.evaluate("document.querySelector('#trouble').hidden")


async def test_a_message_to_another_model_keeps_the_limits_of_the_run(
    tab: Tab, tmp_path: Path
) -> None:
    write_script(tmp_path, *SCRIPT)
    (tmp_path / "none.toml").write_text('model = "play"\n', encoding="utf-8")
    async with serving(tmp_path, PAY) as daemon:
        more = {"limits": {"run_steps": 9}, "priority": 3}
        model = f"scripted:{tmp_path / 'script.toml'}"
        conversation = Conversation(metadata=ConversationMetadata(model=model))
        conversation.save(daemon.premises.store)
        body = {"conversation": conversation.id, "input": "Hello", **more}
        _, run = await daemon.ask("POST", "/runs", body)
        await daemon.premises.wait(run["id"], "ended")
        await tab.visit(f"{daemon.url}/page/#/talk/{run['id']}")
        await tab.wait_for_text("Hello", ".message.assistant")
        await tab.wait_for_text("script.toml", "#model")
        await tab.evaluate(HOLD)
        await send(tab, "Again")  # the run named no model: the same one answers
        await tab.wait_for_text("Again", ".messages > article:last-of-type.assistant")
        await tab.click("#model")
        await tab.wait_for("document.activeElement.id === 'choice'")
        await tab.type("echo")
        await tab.press("Enter")
        await tab.wait_for_text("scripted:echo", "#model")
        await tab.wait_for("document.querySelector('#stop').hidden")
        await send(tab, "Then")
        await tab.wait_for(f"{ARTICLES}.length === 6")
        paths = await tab.evaluate("window.posts.map((each) => each.path)")
        assert paths == [f"/runs/{run['id']}/messages", "/runs"]
        _, run = await daemon.ask("GET", f"/runs/{run['id']}")
        assert run["spec"] == {"model": "scripted:echo", **more}


async def test_a_refused_message_stays_in_its_field(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await tab.evaluate("sessionStorage.clear()")
        await tab.click("#model")
        await tab.wait_for("document.activeElement.id === 'choice'")
        await tab.type("nowhere:none")
        await tab.wait_for_text("use this name", "#choices")
        await tab.press("Enter")
        await tab.wait_for_text("nowhere:none", "#model")
        await send(tab, "Hello")
        await tab.wait_for("!document.querySelector('#trouble').hidden")
        assert await tab.evaluate("document.querySelector('#prompt').value") == "Hello"
        assert await tab.evaluate("location.hash") == "#/talk"


async def test_a_conversation_without_a_run_is_continued_in_place(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        conversation = Conversation()
        conversation.add_user_message("Old.")
        conversation.save(daemon.premises.store)
        await open_talk(tab, daemon, tmp_path)
        await tab.evaluate(f"location.hash = '#/talk/{conversation.id}'")
        await tab.wait_for_text("Old.", ".message.user")
        await send(tab, "New.")
        await tab.wait_for_text("You said: New.", ".message.assistant")
        restored = Conversation.restore(daemon.premises.store, conversation.id)
        assert [text_of(each) for each in restored.canisters[:2]] == ["Old.", "New."]


async def test_a_page_without_a_host_says_how_to_get_one(tab: Tab, tmp_path: Path) -> None:
    async with Premises(tmp_path) as premises:
        conversation = Conversation()
        conversation.add_user_message("Hello")
        conversation.save(premises.store)
        hosts = find_hosts("127.0.0.1", ()) or ()
        view = produce_view(premises.runs.application, premises.store, key="k", hosts=hosts)
        async with Server(view, ServerSettings(port=0)) as server:
            await tab.visit(f"{server.urls[0]}/page/#key=k")
            await tab.wait_for("location.hash === '#/runs'")
            for place in ("#/talk", f"#/talk/{conversation.id}"):
                await tab.evaluate(f"location.hash = {json.dumps(place)}")
                await tab.wait_for_text("vibe serve agents", ".thread .hint")
                assert await tab.evaluate("document.querySelector('#prompt')") is None
                assert await tab.evaluate("document.querySelector('.edit, .retry')") is None


async def test_pictures_and_files_are_sent(tab: Tab, tmp_path: Path) -> None:
    """Pasted and dropped: the model receives their bytes, and a text file as text."""
    give = """
      const data = new DataTransfer();
      const bytes = Uint8Array.from(atob({pixel}), (each) => each.charCodeAt(0));
      data.items.add(new File([bytes], 'pixel.png', {{ type: 'image/png' }}));
      const prompt = document.querySelector('#prompt');
      const options = {{ bubbles: true, cancelable: true }};
      prompt.dispatchEvent(new ClipboardEvent('paste', {{ clipboardData: data, ...options }}));
      const dropped = new DataTransfer();
      dropped.items.add(new File(['# <b>Notes</b>'], 'notes.md'));
      dropped.items.add(new File(['%PDF-1.4'], 'a.pdf', {{ type: 'application/pdf' }}));
      prompt.dispatchEvent(new DragEvent('drop', {{ dataTransfer: dropped, ...options }}));
    """
    async with serving(tmp_path, PAY) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await tab.evaluate(f"(() => {{ {give.format(pixel=json.dumps(PIXEL))} }})()")
        await tab.wait_for("document.querySelectorAll('.attachments li').length === 3")
        await tab.click(".attachments li:nth-child(3) button")
        await tab.wait_for("document.querySelectorAll('.attachments li').length === 2")
        await send(tab, "What is it?")
        await tab.wait_for("document.querySelector('.message.user img')?.naturalWidth === 1")
        await tab.wait_for_text("<b>Notes</b>", ".message.user")
        await tab.wait_for("document.querySelector('.message.assistant')")
        store, identity = daemon.premises.store, await read_id(tab)
        picture, notes, text = Conversation.restore(store, identity).canisters[0].content
        assert (picture.name, picture.mime_type) == ("pixel.png", "image/png")
        assert store.contents.read(picture.content_id) == base64.b64decode(PIXEL)
        assert "# <b>Notes</b>" in notes.text
        assert text.text == "What is it?"

        await tab.evaluate(f"(() => {{ {give.format(pixel=json.dumps(PIXEL))} }})()")
        await tab.wait_for("document.querySelectorAll('.attachments li').length === 3")
        await tab.click("#send")
        await tab.wait_for("document.querySelectorAll('.message.user img').length === 2")
        files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(PIXEL.encode() in data for data in files)  # no log repeats the bytes
        assert tab.complaints == []


LATE_ANSWERS = """
const real = window.fetch;
window.fetch = async (url, options = {}) => {
  const answer = await real(url, { ...options, signal: undefined });
  const wait = (resolve) => setTimeout(resolve, 400);
  if (String(url).includes('conversations/')) await new Promise(wait);
  return answer;
};"""


async def test_a_view_that_is_left_while_it_loads_takes_no_focus(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        conversation = Conversation()
        conversation.add_user_message("Plan the garden")
        conversation.save(daemon.premises.store)
        await open_talk(tab, daemon, tmp_path)
        await tab.evaluate(LATE_ANSWERS)
        await tab.evaluate(f"location.hash = '#/talk/{conversation.id}'")
        await tab.wait_for("document.querySelector('h1').textContent === ''")
        await tab.evaluate("location.hash = '#/talk'")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await tab.evaluate("new Promise((resolve) => setTimeout(resolve, 1500))")
        assert await tab.evaluate("document.activeElement.id") == "prompt"


async def test_the_keyboard_goes_to_every_conversation_run_and_model(
    tab: Tab, tmp_path: Path
) -> None:
    """Ctrl-K from anywhere; the arrow keys choose, and Escape returns to the field."""
    async with serving(tmp_path) as daemon:
        first, other = Conversation(), Conversation()
        first.add_user_message("Plan the garden")
        other.add_user_message("A haiku, please")
        other.add_user_message("It is about turnips")
        for each in (first, other):
            each.save(daemon.premises.store)
        run_id = await daemon.start([say("Done.")])
        await daemon.premises.wait(run_id, "ended")
        await open_talk(tab, daemon, tmp_path)

        async def go(words: str, *, keys: tuple[str, ...] = ("Enter",)) -> None:
            await tab.press("k", control=True)
            await tab.wait_for("document.activeElement.id === 'choice'")
            await tab.type(words)
            for key in keys:
                await tab.press(key)

        await go("garden")
        await tab.wait_for(f"location.hash === '#/talk/{first.id}'")
        await go("new")
        await tab.wait_for("location.hash === '#/talk'")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await go("answered")
        await tab.wait_for(f"location.hash === '#/runs/{run_id}'")
        await tab.press("k", control=True)
        await tab.wait_for("document.activeElement.id === 'choice'")
        await tab.type("about turnips")  # words within a message, which the daemon finds
        await tab.wait_for_text("user", "#choices [aria-selected=true]")
        await tab.press("Enter")
        await tab.wait_for(f"location.hash === '#/talk/{other.id}/1'")
        await tab.wait_for("document.activeElement.id === 'message-1'")
        await go("rename")
        await tab.wait_for("document.activeElement.id === 'asked-name'")
        await tab.press("Escape")
        await go("scripted:echo")
        await tab.wait_for("location.hash === '#/talk'")
        await tab.wait_for_text("scripted:echo", "#model")
        await go("", keys=("ArrowDown", "Enter"))
        await tab.wait_for("location.hash === '#/runs'")
        await tab.evaluate("location.hash = '#/talk'")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await go("nothing of this name", keys=("Enter", "Escape"))
        await tab.wait_for("!document.querySelector('#palette').open")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        tree = await tab.survey_tree()
        assert ("button", "Go to") in [node[:2] for node in tree]
        # a conversation without a run has no page of one
        assert [each for each in tab.complaints if "404" not in each] == []


async def test_the_first_page_is_small(tab: Tab, tmp_path: Path) -> None:
    """With everything that it fetches: 300 kB at most, and no library."""
    entries = "[...performance.getEntries()].filter((each) => each.transferSize !== undefined)"
    async with serving(tmp_path) as daemon:
        conversation = Conversation()
        conversation.add_user_message("Hello")
        conversation.save(daemon.premises.store)
        await tab.visit(f"{daemon.url}/page/")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await tab.wait_for_text("Hello", ".recent")
        await tab.wait_for("document.querySelector('#model')")
        names = await tab.evaluate(f"{entries}.map((each) => each.name)")
        assert any(name.endswith("/models") for name in names)
        assert not [name for name in names if re.search("rendering|formulas|diagram", name)]
        size = await tab.evaluate(f"{entries}.reduce((sum, each) => sum + each.transferSize, 0)")
        assert 50_000 < size < 300_000
