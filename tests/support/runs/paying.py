"""A run that waits for an approval of a payment, started by another program."""

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
    """Start a run in the user's store that waits for approvals of payments; return its id."""
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
    """Start or resume the run with the tool."""
    store = DirectoryStore(home / ".local/share/vibe-llms")
    if isinstance(conversation, str):
        conversation = Conversation.restore(store, conversation)
    async with Engine(f"scripted:{home / 'script.toml'}", [pay], store=store) as engine:
        return await engine.answer(conversation)


def _write(cents: int, purpose: str) -> str:
    end = f', "purpose": "{purpose}"' if purpose else ""
    return f'{{"cents": {cents}{end}}}'
