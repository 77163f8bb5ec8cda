"""``vibe runs send`` and ``vibe runs stop``: letters to a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.options import command
from vibe_llms.interfaces.cli.output import note, repair, write
from vibe_llms.interfaces.cli.runs.naming import advise_to_resume, open_run, run_argument

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.runs.inbox import Letter

_LATER = "It is kept for the run, which hears of it between two steps."


@command("send")
@run_argument
@click.argument("text")
def send(word: str, text: str) -> None:
    """Say TEXT to RUN: the model hears it when it is asked next, and no call is owed a result.

    A run that waits for approvals goes on waiting.
    """
    from vibe_llms.events.runs import MessageReceivedEvent
    from vibe_llms.messages.canisters import UserCanister
    from vibe_llms.messages.identities import produce_identity
    from vibe_llms.runs.surveying import read_summary

    store, summary = open_run(word)
    if summary.kind == "flow":
        raise click.UsageError(f"{summary.id} is a flow: only its diagram says what is asked.")
    if not text.strip():
        raise click.UsageError("There is nothing to say: TEXT is empty.")
    letter = MessageReceivedEvent(canister=UserCanister(repair(text)), letter=produce_identity())
    if not _deliver(store, summary.id, letter):
        note(_LATER)
        return
    write("Sent.")
    sys.stdout.flush()  # before what is said of it
    after = read_summary(store, summary.id)
    if after.state != "waiting":
        note(advise_to_resume(after))


@command("stop")
@run_argument
@click.option("--reason", default="", help="Why, for those who look at the run.")
def stop(word: str, reason: str) -> None:
    """End RUN where it is; what has arrived stays, and `vibe runs resume` goes on with it.

    It hears of it between two steps, also where it works in another process.
    """
    from vibe_llms.events.runs import StopRequestedEvent
    from vibe_llms.messages.identities import produce_identity
    from vibe_llms.runs.surveying import read_summary

    store, summary = open_run(word)
    if summary.state in ("ended", "stopped") and not summary.starts:
        note("It has come to rest already.")
        return
    letter = StopRequestedEvent(reason=repair(reason), letter=produce_identity())
    if not _deliver(store, summary.id, letter):
        note(_LATER)
        return
    after = read_summary(store, summary.id)
    if after.starts:
        write("It has heard of it, and stops.")
    else:
        write("It had come to its end." if after.state == "ended" else "It is stopped.")


def _deliver(store: ConversationStore, identity: str, letter: Letter) -> bool:
    """Puts a letter where it is safe; returns whether the log has it already."""
    from vibe_llms.runs.delivering import deliver
    from vibe_llms.runs.places import produce_inbox

    produce_inbox(store, identity).put(letter)
    return deliver(store, identity)
