"""Shared functions for writing answers: ids, pieces, arguments and counts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import attrs

from vibe_llms.testing.simulator.asks import Ask, count_tokens
from vibe_llms.testing.simulator.faces import SimulatedRequest
from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.scripts import (
    Draw,
    Invoke,
    Part,
    Refuse,
    Say,
    ScriptedAnswer,
    Search,
    Speak,
    Think,
    Tokens,
)

Item = TypeVar("Item")
WITHOUT_IDS = {"missing_ids", "empty_ids"}
NOT_A_CHARACTER = "\ufdd0"
"""Placeholder for two bytes that are not UTF-8."""


def prepare_turn(turn: ScriptedAnswer, conditions: Conditions) -> ScriptedAnswer:
    """Apply the faults that change the content rather than the delivery."""
    parts = list(turn.parts)
    place = next((i for i, part in enumerate(parts) if isinstance(part, Say)), None)
    if place is not None:
        said = parts[place]
        assert isinstance(said, Say)
        if "huge_event" in conditions:
            said = attrs.evolve(said, text="x" * conditions.count("huge_event", 1_000_000))
        if "many_events" in conditions:
            said = attrs.evolve(said, text="." * conditions.count("many_events", 100_000))
        if "invalid_utf8" in conditions:
            said = attrs.evolve(said, text=said.text + NOT_A_CHARACTER)
        parts[place] = said
    if "silent_overflow" in conditions:
        return attrs.evolve(turn, parts=tuple(parts), stop="context")
    return attrs.evolve(turn, parts=tuple(parts))


def split_text(text: str, conditions: Conditions) -> Iterable[str]:
    """Cut a text into the pieces of a stream: words, or as the faults require."""
    if "huge_event" in conditions:
        return [text]
    if "many_events" in conditions:
        return iter(text)
    return re.findall(r"\s*\S+|\s+\Z", text)  # each piece with the space before it


def split_arguments(text: str, conditions: Conditions) -> list[str]:
    """Cut arguments into pieces, in the middle of words and numbers."""
    if "whole_arguments" in conditions:
        return [text]
    # Missing arguments are one piece as well.
    return [text[start : start + 7] for start in range(0, len(text), 7)] or [""]


def write_arguments(invoke: Invoke, conditions: Conditions) -> str:
    """Return the arguments as text, broken if a fault requires it."""
    text = invoke.arguments
    if says_nothing(conditions):
        return ""
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
    if "broken_arguments" in conditions and not invoke.custom:
        return text[:-1] + ',"' if text.endswith("}") else text + "{"
    return text


def says_nothing(conditions: Conditions) -> bool:
    """True if invocations come without arguments, in any form."""
    return bool({"empty_arguments", *NOTHING} & conditions.values.keys())


NOTHING = ("null_arguments", "absent_arguments")


def leave_nothing(call: dict[str, Any], field: str, conditions: Conditions) -> dict[str, Any]:
    """Remove an invocation's field of arguments, or its content, if a fault requires it."""
    if "absent_arguments" in conditions:
        return {name: value for name, value in call.items() if name != field}
    return {**call, field: None} if "null_arguments" in conditions else call


def read_arguments(invoke: Invoke) -> Any:
    """Return the arguments as an object; None if they are broken."""
    if not isinstance(invoke.arguments, str):
        return dict(invoke.arguments)
    try:
        return json.loads(invoke.arguments)
    except ValueError:
        return None


def is_broken(turn: ScriptedAnswer, conditions: Conditions) -> bool:
    """True if an invocation's arguments are broken for a vendor who parses them."""
    calls = [part for part in turn.parts if isinstance(part, Invoke)]
    return bool(calls) and (
        "broken_arguments" in conditions
        or any(not isinstance(read_arguments(call), dict) for call in calls)
    )


def assign_ids(
    turn: ScriptedAnswer, setting: SimulatedRequest, mint: Callable[[], str]
) -> list[tuple[Part, str]]:
    """Give each invocation an id: its own, a generated one, or one set by a fault."""
    conditions = setting.conditions
    assigned: list[tuple[Part, str]] = []
    first = ""
    for part in turn.parts:
        identity = ""
        if isinstance(part, Invoke) and not WITHOUT_IDS & conditions.values.keys():
            identity = part.id or (mint() if not first or "reused_ids" not in conditions else "")
            if "reused_ids" in conditions:
                identity = first = first or identity
        assigned.append((part, identity))
    return assigned


def interleave(lanes: Sequence[Sequence[Item]]) -> Iterator[Item]:
    """Yield one item of each lane in turn, until all are empty."""
    for place in range(max(map(len, lanes), default=0)):
        for lane in lanes:
            if place < len(lane):
                yield lane[place]


def count_usage(turn: ScriptedAnswer, ask: Ask) -> Tokens:
    """Return the tokens of an exchange: the script's, or counted."""
    if turn.usage is not None:
        return turn.usage
    produced = reasoning = 0
    for part in turn.parts:
        match part:
            case Think(text):
                reasoning += count_tokens(text)
            case Say(text) | Refuse(text):
                produced += count_tokens(text)
            case Invoke(name, arguments):
                produced += count_tokens(name) + count_tokens(str(arguments))
            case Draw(data) | Speak(data):
                produced += len(data) // 100 + 1
            case Search(query):
                produced += count_tokens(query)
            case _:
                produced += 1
    return Tokens(received=ask.received, produced=produced + reasoning, reasoning=reasoning)
