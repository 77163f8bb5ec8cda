"""Functions that all protocols use to write answers: ids, pieces, arguments and counts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import attrs

from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.prompts import SimulatedPrompt, count_tokens
from vibe_llms.testing.simulator.protocols import SimulatedRequest
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
"""Placeholder that the delivery replaces with two bytes that are not UTF-8."""


def prepare_turn(turn: ScriptedAnswer, conditions: Conditions) -> ScriptedAnswer:
    """Apply the faults that change the content rather than the delivery."""
    parts = list(turn.parts)
    position = next((i for i, part in enumerate(parts) if isinstance(part, Say)), None)
    if position is not None:
        first_text = parts[position]
        assert isinstance(first_text, Say)
        if "huge_event" in conditions:
            first_text = attrs.evolve(
                first_text, text="x" * conditions.count("huge_event", 1_000_000)
            )
        if "many_events" in conditions:
            first_text = attrs.evolve(
                first_text, text="." * conditions.count("many_events", 100_000)
            )
        if "invalid_utf8" in conditions:
            first_text = attrs.evolve(first_text, text=first_text.text + NOT_A_CHARACTER)
        parts[position] = first_text
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
    # An empty text still is one piece.
    return [text[start : start + 7] for start in range(0, len(text), 7)] or [""]


def write_arguments(invoke: Invoke, conditions: Conditions) -> str:
    """Return the arguments as text, broken if a fault requires it."""
    text = invoke.arguments
    if sends_no_arguments(conditions):
        return ""
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
    if "broken_arguments" in conditions and not invoke.custom:
        return text[:-1] + ',"' if text.endswith("}") else text + "{"
    return text


def sends_no_arguments(conditions: Conditions) -> bool:
    """True if a fault requires invocations without arguments: an empty text, null, or no field."""
    return bool(
        {"empty_arguments", "null_arguments", "absent_arguments"} & conditions.values.keys()
    )


def drop_arguments(call: dict[str, Any], field: str, conditions: Conditions) -> dict[str, Any]:
    """Return an invocation; if a fault requires it, with null or missing arguments."""
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
    """True if the arguments of an invocation are invalid for vendors that parse arguments."""
    calls = [part for part in turn.parts if isinstance(part, Invoke)]
    return bool(calls) and (
        "broken_arguments" in conditions
        or any(not isinstance(read_arguments(call), dict) for call in calls)
    )


def assign_ids(
    turn: ScriptedAnswer, request: SimulatedRequest, mint: Callable[[], str]
) -> list[tuple[Part, str]]:
    """Give each invocation an id: its own id, a generated id, or an id from a fault."""
    conditions = request.conditions
    assigned: list[tuple[Part, str]] = []
    first_id = ""
    for part in turn.parts:
        identity = ""
        if isinstance(part, Invoke) and not WITHOUT_IDS & conditions.values.keys():
            if "reused_ids" in conditions and first_id:
                identity = first_id
            else:
                identity = part.id or mint()
                first_id = first_id or identity
        assigned.append((part, identity))
    return assigned


def interleave(lanes: Sequence[Sequence[Item]]) -> Iterator[Item]:
    """Yield one item of each lane in turn, until all are empty."""
    for index in range(max(map(len, lanes), default=0)):
        for lane in lanes:
            if index < len(lane):
                yield lane[index]


def count_usage(turn: ScriptedAnswer, prompt: SimulatedPrompt) -> Tokens:
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
    return Tokens(
        received=prompt.tokens,
        produced=produced + reasoning,
        cached=prompt.cached,
        written=prompt.written + prompt.written_long,
        written_long=prompt.written_long,
        reasoning=reasoning,
    )
