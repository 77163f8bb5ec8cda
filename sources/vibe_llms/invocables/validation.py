"""Whether arguments fit a schema, and what is wrong with them in words a model can act on.

The usual schemas are checked by a function compiled from them (``checks``); jsonschema, which
has the last word on everything else and on whatever seems wrong, is loaded when it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.invocables.checks import Check, compile_check
from vibe_llms.plain import JsonObject

FAULTS_LIMIT: Final = 10
"""How many faults are told at once: a model mends the first ones first."""


_SHOWN_CHARACTERS: Final = 80


@attrs.frozen(kw_only=True)
class Fault:
    """One thing that is wrong with arguments.

    Attributes:
        path: The place, such as ``arguments.places[0].name``.
        rule: What holds there, and what was given, in words.
    """

    path: str
    rule: str

    def __str__(self) -> str:
        return f"{self.path}: {self.rule}"


class Misfit(ValueError):
    """An argument that a function cannot take, though the schema may have admitted it.

    Args:
        rule: What holds there, in words.
        path: The place within the arguments, such as ``.places[0]``.
        others: What else does not fit, where that was found at the same time.
    """

    def __init__(self, rule: str, path: str = "", others: Sequence[Misfit] = ()) -> None:
        super().__init__(rule)
        self.rule = rule
        self.path = path
        self.others = tuple(others)

    @property
    def fault(self) -> Fault:
        """The same as a fault."""
        return Fault(path=f"arguments{self.path}", rule=self.rule)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All that was found, at most ``FAULTS_LIMIT`` of it."""
        return tuple(each.fault for each in (self, *self.others))[:FAULTS_LIMIT]

    def move(self, place: str) -> Misfit:
        """Returns the same for a value that lies at a place within another."""
        others = [each.move(place) for each in self.others]
        return Misfit(self.rule, f"{place}{self.path}", others)

    def __str__(self) -> str:
        return str(self.fault)


def show_value(value: Any) -> str:
    """Quotes what was given, in JSON and in short."""
    try:
        return shorten(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"


def shorten(text: str) -> str:
    """Puts a text into one line of a bearable length, without a full stop."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


def explain_faults(name: str, faults: Sequence[Fault]) -> str:
    """Tells a model what is wrong with the arguments of a call."""
    lines = "\n".join(f"- {fault}" for fault in faults)
    return f"{name} was not executed, because its arguments do not fit:\n{lines}"


@attrs.define(eq=False)
class Validator:
    """What a schema says about arguments.

    Attributes:
        schema: A JSON Schema; draft 2020-12 unless its ``$schema`` names another.
    """

    schema: JsonObject
    _check: Check | None = attrs.field(init=False, repr=False)
    _judge: Any = attrs.field(default=None, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._check = compile_check(self.schema)

    def check(self, arguments: Any) -> tuple[Fault, ...]:
        """Returns what is wrong with the arguments; nothing where they fit.

        Raises:
            RequestError: The schema itself is none, or refers to what is not within it.
        """
        if self._check is not None and self._check(arguments):
            return ()
        from vibe_llms.invocables.faults import find_faults, produce_judge

        if self._judge is None:
            self._judge = produce_judge(self.schema)
        return find_faults(self._judge, arguments)[:FAULTS_LIMIT]


def produce_validator(schema: JsonObject) -> Validator:
    """Produces the validator of a schema; the expensive parts wait until they are needed.

    Raises:
        RequestError: The schema is no object.
    """
    if not isinstance(schema, Mapping):
        raise RequestError(
            path="schema",
            detail=f"A schema is an object, not {type(schema).__name__}.",
            remedy="Give a JSON Schema as a dict.",
            stage=Stage.CONFIGURE,
        )
    return Validator(schema)
