"""``vibe log``."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import click

from vibe_llms.interfaces.cli.access import find_identity, open_index, open_store
from vibe_llms.interfaces.cli.options import command, json_option, optional_conversation_argument
from vibe_llms.interfaces.cli.output import (
    measure_width,
    sanitize,
    shorten,
    style,
    write_json,
    write_moment,
    write_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vibe_llms.conversations.lineage.families import Relative
    from vibe_llms.conversations.lineage.turns import Turn

_MIN_LETTERS: Final = 4
"""Minimum length of a shown id."""

_TITLE_COLUMNS: Final = 40


@command("log")
@optional_conversation_argument
@click.option("--graph", is_flag=True, help="Draw its ancestors and forks as a tree.")
@json_option
def log(identity: str | None, graph: bool, as_json: bool) -> None:
    """List the turns of a conversation, or draw the tree of its forks.

    Without ID, show the newest. `vibe cherry-pick` takes the numbers of turns.
    """
    store = open_store()
    found = find_identity(store, identity)
    if graph:
        from vibe_llms.conversations.lineage.families import survey_family

        index = open_index(store)
        family = survey_family(index, found)
        if as_json:
            write_json(_describe_family(family))
        else:
            rows = index.survey(limit=None, parts=True)
            _draw(family, found, _shorten_ids(row.id for row in rows))
        return
    from vibe_llms.conversations.lineage.turns import split_turns

    turns = split_turns(store.read(found).canisters)
    if as_json:
        write_json({"id": found, "turns": [_describe_turn(turn) for turn in turns]})
        return
    write_table(
        [_compose_row(turn) for turn in turns],
        headers=("turn", "messages", "time", "model", "question"),
        styles=("cyan", "", "dim", "dim"),
    )


def _describe_turn(turn: Turn) -> dict[str, Any]:
    origin = turn.answer_origin
    return {
        "turn": turn.number,
        "start": turn.start,
        "messages": len(turn.canisters),
        "time": turn.canisters[0].timestamp,
        "model": None if origin is None else f"{origin.provider}:{origin.model}",
        "question": _write_question(turn),
    }


def _compose_row(turn: Turn) -> tuple[str, ...]:
    origin, last = turn.answer_origin, turn.start + len(turn.canisters) - 1
    return (
        str(turn.number),
        f"[{turn.start}]" if last == turn.start else f"[{turn.start}]-[{last}]",
        write_moment(turn.canisters[0].timestamp),
        "" if origin is None else f"{origin.provider}:{origin.model}",
        _write_question(turn),
    )


def _write_question(turn: Turn) -> str:
    from vibe_llms.interfaces.cli.chat.output import describe_canister

    question = turn.question
    return "" if question is None else "\n".join(text for _, text in describe_canister(question))


def _describe_family(relative: Relative) -> dict[str, Any]:
    from vibe_llms.conversations.lineage.exporting import export_family

    return {"root": relative.row.id, "conversations": export_family(relative)}


def _shorten_ids(identities: Iterable[str]) -> dict[str, str]:
    """Return the shortest unambiguous beginning of each id, of four letters or more."""
    ordered = sorted(identities)
    lengths = dict.fromkeys(ordered, _MIN_LETTERS)
    for one, other in pairwise(ordered):
        common = next(
            (
                index
                for index, letters in enumerate(zip(one, other, strict=False))
                if letters[0] != letters[1]
            ),
            min(len(one), len(other)),
        )
        for each in (one, other):
            lengths[each] = max(lengths[each], common + 1)
    return {identity: identity[:length] for identity, length in lengths.items()}


def _draw(family: Relative, chosen: str, names: dict[str, str]) -> None:
    from vibe_llms.conversations.tags import survey_sources

    columns = measure_width() if sys.stdout.isatty() else 0
    for prefix, relative in _survey_lines(family):
        row = relative.row
        title = " ".join((row.name or row.first_words).split())
        parts = [write_moment(row.updated), f"{row.canisters} messages"]
        if relative.shared is not None:
            parts.append(f"forked at [{relative.shared}]")
        parts += [f"from {names.get(source, source)}" for source in survey_sources(row.tags)]
        facts = ", ".join(parts)
        name = names[row.id]
        mark = "*" if row.id == chosen else " "
        if columns:
            room = columns - len(prefix) - len(name) - len(facts) - 6
            title = shorten(title, min(max(room, 8), _TITLE_COLUMNS))
        sys.stdout.write(
            f"{prefix}{style(name, 'cyan', *(['bold'] if mark == '*' else []))}{mark} "
            f"{sanitize(title)}  {style(sanitize(facts), 'dim')}".rstrip()
            + "\n"
        )


def _survey_lines(family: Relative) -> Iterator[tuple[str, Relative]]:
    """Yield each conversation with the branches before it."""
    pending = [("", "", family)]
    while pending:
        prefix, indent, relative = pending.pop()
        yield prefix, relative
        last = len(relative.children) - 1
        pending += [
            (
                indent + ("└─ " if number == last else "├─ "),
                indent + ("   " if number == last else "│  "),
                child,
            )
            for number, child in reversed(list(enumerate(relative.children)))
        ]
