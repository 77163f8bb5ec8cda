"""``vibe diff``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import open_store, resolve_identity
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import CONVERSATION, command, json_option
from vibe_llms.interfaces.cli.output import (
    note,
    sanitize,
    shorten,
    style,
    wants_colour,
    write,
    write_json,
    write_styled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vibe_llms.conversations.lineage.differences import (
        Change,
        ConversationDifference,
        MessageDifference,
        TurnDifference,
    )
    from vibe_llms.messages.canisters import AnyCanister

_MARKS: dict[str, tuple[str, str, str]] = {
    "removed": ("[-", "-]", "red"),
    "added": ("{+", "+}", "green"),
}
"""Marks of changed words without colour, as in git, and the colour of each."""

_CONTEXT_LINES = 3
"""Number of equal lines, with the line of the change, that are shown on each side of it."""

_COLUMNS = 60
"""Width to which the last common message is cut."""


@command("diff")
@click.argument("first", metavar="A", type=CONVERSATION)
@click.argument("second", metavar="B", type=CONVERSATION)
@json_option
def diff(first: str, second: str, as_json: bool) -> int:
    """Show how two conversations differ: the common beginning, then turn by turn.

    Compare forks, or answers of two models. Changed words are coloured on a terminal; elsewhere,
    they are [-removed-] and {+added+}. Ids, times and costs do not count as differences.

    The exit code is 1 if the conversations differ, as with diff.
    """
    from vibe_llms.conversations.lineage.differences import compare_conversations

    store = open_store()
    difference = compare_conversations(
        store, resolve_identity(store, first), resolve_identity(store, second)
    )
    if as_json:
        write_json(_describe(difference))
    else:
        _show(difference)
    return ExitCode.INCOMPLETE if difference.turns else ExitCode.SUCCESS


def _describe(difference: ConversationDifference) -> dict[str, Any]:
    from vibe_llms.conversations.lineage.exporting import export_common, export_turns

    return {
        "first": difference.first,
        "second": difference.second,
        "common": export_common(difference),
        "turns": export_turns(difference.turns),
    }


def _show(difference: ConversationDifference) -> None:
    from vibe_llms.conversations.lineage.exporting import compare_texts

    write_styled(f"- {difference.first}", "red")
    write_styled(f"+ {difference.second}", "green")
    write_styled(_describe_common(difference), "dim")
    for turn in difference.turns:
        write()
        write_styled(_describe_turn(turn), "bold")
        for message in turn.messages:
            write_styled(_describe_message(message), "cyan")
            _write_words(compare_texts(message))
    if not difference.turns:
        note("No differences.")


def _describe_common(difference: ConversationDifference) -> str:
    if difference.last_common is None:
        return "No common beginning."
    last = shorten(_write_text(difference.last_common), _COLUMNS)
    count = difference.common
    number = "message" if count == 1 else "messages"
    relation = " (shared)" if difference.shared == count else ""
    end = f"[{count - 1}] {difference.last_common.role}: {last}"
    return f"Common: {count} {number}{relation}, up to {end}"


def _describe_turn(turn: TurnDifference) -> str:
    one, other = turn.first, turn.second
    if one is not None and other is not None:
        numbers = (
            f"{one.number}" if one.number == other.number else f"{one.number} / {other.number}"
        )
        return f"Turn {numbers}: changed"
    if one is not None:
        return f"Turn {one.number}: only in the first"
    assert other is not None
    return f"Turn {other.number}: only in the second"


def _describe_message(message: MessageDifference) -> str:
    sides = [
        (message.first, message.first_index),
        (message.second, message.second_index),
    ]
    places = [f"[{index}]" for canister, index in sides if canister is not None]
    models = [
        f"{canister.origin.provider}:{canister.origin.model}"
        for canister, _ in sides
        if canister is not None and canister.origin is not None
    ]
    roles = [canister.role for canister, _ in sides if canister is not None]
    parts = ["/".join(dict.fromkeys(places)), roles[0]]
    return " · ".join([" ".join(parts), *([" / ".join(dict.fromkeys(models))] if models else [])])


def _write_text(canister: AnyCanister) -> str:
    from vibe_llms.interfaces.cli.chat.output import describe_canister

    return "\n".join(text for _, text in describe_canister(canister))


def _write_words(pieces: Iterable[tuple[Change, str]]) -> None:
    has_colour = wants_colour(sys.stdout)
    words = []
    pieces = list(pieces)
    for number, (change, text) in enumerate(pieces):
        if change == "equal":
            text = _elide(text, is_first=number == 0, is_last=number == len(pieces) - 1)
        shown = sanitize(text) if sys.stdout.isatty() else text
        if change == "equal":
            words.append(shown)
            continue
        before, after, colour = _MARKS[change]
        # Each line is styled for itself: pagers end a style at the end of a line.
        words.append(
            "\n".join(style(line, colour) for line in shown.split("\n"))
            if has_colour
            else f"{before}{shown}{after}"
        )
    sys.stdout.write("".join(words) + "\n")


def _elide(text: str, *, is_first: bool, is_last: bool) -> str:
    """Shorten an equal text to the lines next to a change."""
    lines = text.split("\n")
    if len(lines) <= 2 * _CONTEXT_LINES + 1:
        return text
    before = [] if is_first else lines[:_CONTEXT_LINES]
    after = [] if is_last else lines[-_CONTEXT_LINES:]
    return "\n".join([*before, "…", *after])
