"""Conversations on the page of the agents daemon, in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import attrs

from support.daemons.run_daemons import Daemon
from support.runs.acting import invoke, say
from support.runs.scripting import write_script
from support.screens.browsers import Tab
from vibe_llms import AssistantCanister, Conversation, UserCanister
from vibe_llms.conversations import ConversationStore
from vibe_llms.invocables import produce_invoker
from vibe_llms.messages.canisters import AnyCanister

SCRIPT = [
    {"match": "pay", "contents": [{"reasoning": "She is owed."}, invoke("pay", to="Ann")]},
    {"match": "slow", "contents": [say("one two three")], "delay_seconds": 0.01},
    {"match": "fail", "contents": [say("x")], "fault": {"at_chunk": 0, "kind": "invalid-request"}},
    {"contents": [say("You said: {input}")]},
]
"""Answers of the scripted model of :func:`open_talk`."""

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""Picture of one pixel, in base64."""

FIELD = "document.querySelector('#prompt')?.value"
ARTICLES = "Array.from(document.querySelectorAll('.messages:not(.pending) > article'))"


def pay(to: str) -> str:
    """Pays somebody."""
    return f"paid {to}"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


@attrs.define
class Tap:
    """Lets pieces of slow answers pass."""

    pieces: int = 0

    def may_go(self, _: str | None) -> bool:
        self.pieces -= 1
        return self.pieces >= 0


async def open_talk(tab: Tab, daemon: Daemon, folder: Path) -> None:
    """Open the page with the scripted model and the tools chosen."""
    path = write_script(folder, *SCRIPT)
    await choose(tab, daemon, f"scripted:{path}", "any")


async def choose(tab: Tab, daemon: Daemon, model: str, *ensembles: str) -> None:
    """Open the page with a model and tools chosen."""
    choice = json.dumps({"model": model, "ensembles": list(ensembles)})
    await tab.visit(f"{daemon.url}/page/#/conversations")
    name = "'vibe-choice ' + new URL('../', document.baseURI)"
    await tab.evaluate(f"sessionStorage.setItem({name}, {json.dumps(choice)})")
    await tab.evaluate("location.hash = '#/talk'")
    await tab.wait_for("document.activeElement.id === 'prompt'")


async def send(tab: Tab, text: str) -> None:
    """Write a message, and send it with Enter."""
    await tab.wait_for("document.querySelector('#prompt')")
    await tab.evaluate("document.querySelector('#prompt').focus()")
    await tab.type(text)
    await tab.press("Enter")


async def read_id(tab: Tab) -> str:
    """Return the id of the open conversation."""
    await tab.wait_for("/^#.talk.[^/]+/.test(location.hash)")
    return str(await tab.evaluate("location.hash.split('/')[2]"))


def save_long(store: ConversationStore, count: int) -> str:
    """Save a conversation of many messages in Markdown, some with code; return its id."""
    conversation = Conversation()
    store.create(conversation.id, conversation.metadata)
    canisters: list[AnyCanister] = []
    for number in range(count // 2):
        text = f"Answer {number}: **bold**.\n\n* one\n* two\n\n{'More words. ' * (number % 40)}"
        if number % 5 == 0:
            text += "\n\n```python\ndef add(one, other):\n    return one + other\n```"
        canisters += [UserCanister(f"Question {number}: what?"), AssistantCanister(text)]
    store.append(conversation.id, canisters)
    return conversation.id


def has(text: str, place: str = "main") -> str:
    """Return the expression that a place shows a text."""
    return f"document.querySelector({json.dumps(place)})?.textContent.includes({json.dumps(text)})"
