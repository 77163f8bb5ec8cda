"""The run that a command names, what it waits for, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vibe_llms.interfaces.cli.options import RUN

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.runs.summaries import RunSummary

_Function = TypeVar("_Function", bound=Callable[..., Any])

run_argument = click.argument("word", metavar="RUN", type=RUN)


def open_run(word: str) -> tuple[ConversationStore, RunSummary]:
    """Opens the store, and finds the run that a word names or begins.

    Raises:
        UnknownConversationError: There is none.
        AmbiguousIdentityError: There are several.
        StoreError: It is a conversation that has not run yet.
    """
    from vibe_llms.interfaces.cli.access import open_store, resolve_identity
    from vibe_llms.runs.surveying import read_summary

    store = open_store()
    return store, read_summary(store, resolve_identity(store, word))


def advise_to_resume(summary: RunSummary) -> str:
    """Says how a run goes on that somebody has answered."""
    from vibe_llms.interfaces.cli.program import compose_command

    command = compose_command("runs", "resume", summary.id)
    if summary.state == "working":
        return "The run hears of it between two steps."
    if summary.order:
        return f"Whoever hosts the run goes on with it; where nobody does: {command}"
    return f"It goes on where it was begun, or with: {command}"


def export_summary(summary: RunSummary) -> dict[str, Any]:
    """Returns where a run stands as plain data."""
    import attrs

    return attrs.asdict(summary, recurse=False)
