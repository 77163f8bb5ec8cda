"""A run that waits for somebody to allow a payment, as another program has left it."""

from __future__ import annotations

from pathlib import Path

from support.runs.scripting import write_script
from vibe_llms import Conversation, Engine, invocable
from vibe_llms.conversations import DirectoryStore
from vibe_llms.instruments.engines import RunOutcome


@invocable(effect="once", needs_approval=True)
def pay(cents: int, purpose: str = "") -> str:
    """Pays."""
    return f"paid {cents}"


async def start_payment_run(home: Path, calls: int = 1, purpose: str = "") -> str:
    """Lets a run ask for payments; returns its id. It waits in the store of a user."""
    conversation = Conversation()
    conversation.add_user_message("Pay, please.")
    contents = [
        {"invocation": {"id": f"c{n}", "name": "pay", "arguments": _write(n * 100, purpose)}}
        for n in range(1, calls + 1)
    ]
    write_script(home, {"contents": contents}, {"contents": [{"text": "It is paid."}]})
    await resume_payment_run(home, conversation)
    return conversation.id


async def resume_payment_run(home: Path, conversation: Conversation | str) -> RunOutcome:
    """Lets the program that has the tool go on."""
    store = DirectoryStore(home / ".local/share/vibe-llms")
    if isinstance(conversation, str):
        conversation = Conversation.restore(store, conversation)
    async with Engine(f"scripted:{home / 'script.toml'}", [pay], store=store) as engine:
        return await engine.answer(conversation)


def _write(cents: int, purpose: str) -> str:
    end = f', "purpose": "{purpose}"' if purpose else ""
    return f'{{"cents": {cents}{end}}}'
