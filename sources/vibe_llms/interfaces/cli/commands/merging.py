"""``vibe cherry-pick`` and ``vibe merge``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from vibe_llms.interfaces.cli.access import open_store, resolve_identity
from vibe_llms.interfaces.cli.options import CONVERSATION, command, json_option
from vibe_llms.interfaces.cli.output import note, write, write_count, write_json

if TYPE_CHECKING:
    from vibe_llms.conversations.lineage.grafts import Ending, Graft

_RANGE: Final = re.compile(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*")
_MAX_TURNS: Final = 100_000


@command("cherry-pick")
@click.argument("source", metavar="FROM", type=CONVERSATION)
@click.argument("turns", metavar="TURNS")
@click.argument("target", metavar="INTO", type=CONVERSATION)
@json_option
def cherry_pick(source: str, turns: str, target: str, as_json: bool) -> None:
    """Fork INTO, add turns of FROM to the fork, and print its id.

    TURNS are numbers and ranges, such as 2,4-6, as `vibe log` shows them. A turn is a question with
    its answers, calls and results. FROM and INTO do not change; `vibe blame` names the source of
    each message.
    """
    from vibe_llms.conversations.lineage.grafts import pick_turns

    numbers = _read_numbers(turns)
    store = open_store()
    graft = pick_turns(
        store, resolve_identity(store, source), numbers, resolve_identity(store, target)
    )
    _report(graft, as_json, nothing="INTO already contains these turns.")


@command("merge")
@click.argument("first", metavar="A", type=CONVERSATION)
@click.argument("second", metavar="B", type=CONVERSATION)
@click.option(
    "--take",
    type=click.Choice(["both", "first", "second"]),
    default="both",
    show_default=True,
    help="Endings to keep.",
)
@json_option
def merge(first: str, second: str, take: Ending, as_json: bool) -> None:
    """Join two forks in a new fork of A, and print its id.

    The fork has the common beginning, then the ending of A, then the ending of B. Conflicts are
    reported: contradicting instructions, two answers to one question, calls without a result. A and
    B do not change. If one of them contains the other, its id is printed and nothing is created.
    """
    from vibe_llms.conversations.lineage.grafts import merge_conversations

    store = open_store()
    graft = merge_conversations(
        store, resolve_identity(store, first), resolve_identity(store, second), take=take
    )
    _report(graft, as_json, nothing="One of them contains the other.")


def _report(graft: Graft, as_json: bool, *, nothing: str) -> None:
    if as_json:
        write_json(
            {
                "id": graft.identity,
                "parent": graft.parent if graft.is_new else None,
                "is_new": graft.is_new,
                "added": graft.added,
                "conflicts": graft.conflicts,
            }
        )
        return
    for conflict in graft.conflicts:
        note(f"Conflict: {conflict}")
    added = write_count(graft.added, "message")
    note(f"Forked {graft.parent}, added {added}." if graft.is_new else f"{nothing} Nothing to do.")
    write(graft.identity)


def _read_numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first = int(match[1]) if match else 0
        last = int(match[2] or first) if match else 0
        if not 1 <= first <= last < first + _MAX_TURNS:
            raise click.UsageError(
                f"Invalid turns {text!r}. Use numbers and ranges from 1, such as 2,4-6."
            )
        numbers += range(first, last + 1)
    return numbers
