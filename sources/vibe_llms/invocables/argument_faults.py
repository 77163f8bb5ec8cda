"""Faults of arguments, in words that a model can act on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen

FAULTS_LIMIT: Final = 10
"""Maximum number of faults in one message; more would not help the model."""


_SHOWN_CHARACTERS: Final = 80


@frozen(kw_only=True)
class ArgumentFault:
    """One fault of arguments.

    Attributes:
        path: The place, such as ``arguments.places[0].name``.
        rule: The violated rule and the actual value, in words.
    """

    path: str
    rule: str

    def __str__(self) -> str:
        return f"{self.path}: {self.rule}"


class Misfit(ValueError):
    """An argument that a function cannot take, even if the schema has accepted it.

    Args:
        rule: The violated rule, in words.
        path: The place within the arguments, such as ``.places[0]``.
        others: Further faults that were found together with this one.
    """

    def __init__(self, rule: str, path: str = "", others: Sequence[Misfit] = ()) -> None:
        super().__init__(rule)
        self.rule = rule
        self.path = path
        self.others = tuple(others)

    @property
    def fault(self) -> ArgumentFault:
        """The first fault, with its complete path."""
        return ArgumentFault(path=f"arguments{self.path}", rule=self.rule)

    @property
    def faults(self) -> tuple[ArgumentFault, ...]:
        """All faults, at most ``FAULTS_LIMIT``."""
        return tuple(each.fault for each in (self, *self.others))[:FAULTS_LIMIT]

    def move(self, place: str) -> Misfit:
        """Return the faults with paths for a value that is nested in another value."""
        others = [each.move(place) for each in self.others]
        return Misfit(self.rule, f"{place}{self.path}", others)

    def __str__(self) -> str:
        return str(self.fault)


def show_value(value: Any) -> str:
    """Quote a value, as short JSON."""
    try:
        return shorten(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"


def shorten(text: str) -> str:
    """Shorten a text to one line, without a full stop."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


def explain_faults(name: str, faults: Sequence[ArgumentFault]) -> str:
    """Explain the faults of a call's arguments to a model."""
    lines = "\n".join(f"- {fault}" for fault in faults)
    return f"{name} was not executed, because its arguments are invalid:\n{lines}"


def write_fault_lines(faults: Sequence[ArgumentFault]) -> str:
    """Format the faults of a result, one per line; their paths start with ``result``."""
    return "".join(
        f"\n- {fault.path.replace('arguments', 'result', 1)}: {fault.rule}" for fault in faults
    )


def refuse_schema(name: str, detail: str, *, is_complete: bool = False) -> RequestError:
    """Create the error for a schema that cannot be applied.

    Args:
        name: Owner of the schema; may be empty.
        detail: The reason, as a part of a sentence.
        is_complete: True if the detail is already a complete message, from another process.
    """
    owner = f" of {name}" if name else ""
    return RequestError(
        path="schema",
        detail=detail if is_complete else f"Cannot apply the schema{owner}: {detail}",
        remedy="Correct the schema, or remove what uses it.",
        stage=Stage.EXECUTE,
    )
