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
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.schema_compiler import Check, compile_check

FAULTS_LIMIT: Final = 10
"""How many faults are told at once: a model mends the first ones first."""


_SHOWN_CHARACTERS: Final = 80


@frozen(kw_only=True)
class ArgumentFault:
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
    def fault(self) -> ArgumentFault:
        """The same as a fault."""
        return ArgumentFault(path=f"arguments{self.path}", rule=self.rule)

    @property
    def faults(self) -> tuple[ArgumentFault, ...]:
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


def explain_faults(name: str, faults: Sequence[ArgumentFault]) -> str:
    """Tells a model what is wrong with the arguments of a call."""
    lines = "\n".join(f"- {fault}" for fault in faults)
    return f"{name} was not executed, because its arguments are invalid:\n{lines}"


def list_faults(faults: Sequence[ArgumentFault]) -> str:
    """Returns what is wrong with a result, a line each."""
    return "".join(
        f"\n- {fault.path.replace('arguments', 'result', 1)}: {fault.rule}" for fault in faults
    )


def refuse_schema(name: str, detail: str, *, is_told: bool = False) -> RequestError:
    """Produces the error about a schema that cannot be applied.

    Args:
        name: Of what the schema is; may be empty.
        detail: Why, in the midst of a sentence.
        is_told: The detail is whole: another process has composed it.
    """
    of = f" of {name}" if name else ""
    return RequestError(
        path="schema",
        detail=detail if is_told else f"Cannot apply the schema{of}: {detail}",
        remedy="Correct the schema, or remove what uses it.",
        stage=Stage.EXECUTE,
    )


@frozen
class DataWeight:
    """How large plain data are.

    Attributes:
        nodes: Values and keys.
        characters: Of all texts.
    """

    nodes: int
    characters: int


def weigh(value: Any, limit: int) -> DataWeight:
    """Weighs data, and stops soon after so many nodes: rings and floods end, too."""
    nodes = characters = 0
    ahead = [value]
    while ahead and nodes <= limit:
        each = ahead.pop()
        nodes += 1
        if isinstance(each, str):
            characters += len(each)
        elif isinstance(each, Mapping):
            nodes += len(each)
            characters += sum(len(key) for key in each if isinstance(key, str))
            ahead.extend(each.values())
        elif isinstance(each, (list, tuple)):
            ahead.extend(each)
    return DataWeight(nodes + len(ahead), characters)


CHECK_PAIRS: Final = 1_000_000
"""With how many pairs of a node of the schema and one of the value a check is at hand: a tenth of
a second at worst."""

EXPLAIN_PAIRS: Final = 20_000
EXPLAIN_CHARACTERS: Final = 30_000_000
"""For how many pairs, times characters, jsonschema is asked here: each fault quotes the value."""


@define(eq=False)
class Validator:
    """What a schema says about arguments.

    What is usual and small is seen at once. Everything else, as patterns, references and much
    data, is looked at by another process, within bounds: a schema may be a stranger's.

    Attributes:
        schema: A JSON Schema; draft 2020-12 unless its ``$schema`` names another.
        name: Of what it is the schema, for errors.
    """

    schema: JsonObject
    name: str = ""
    _check: Check | None = attrs.field(init=False, repr=False)
    _weight: DataWeight = attrs.field(init=False, repr=False)
    _validator: Any = attrs.field(default=None, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._weight = weigh(self.schema, CHECK_PAIRS)
        # A schema so large that weighing it was given up is not walked once more to compile it.
        self._check = compile_check(self.schema) if self._weight.nodes < CHECK_PAIRS else None

    def check(self, arguments: Any) -> tuple[ArgumentFault, ...]:
        """Returns what is wrong with the arguments; nothing where they fit.

        May wait for another process; :meth:`examine` does not hold an event loop meanwhile.

        Raises:
            RequestError: The schema itself is none, refers to what is not within it, or takes
                too long.
        """
        faults = self._check_here(arguments)
        return self._consult(arguments) if faults is None else faults

    async def examine(self, arguments: Any) -> tuple[ArgumentFault, ...]:
        """Does what :meth:`check` does, and lets the event loop go on meanwhile."""
        faults = self._check_here(arguments)
        if faults is not None:
            return faults
        import asyncio

        return await asyncio.to_thread(self._consult, arguments)

    def is_at_hand(self, weight: DataWeight) -> bool:
        """Tells whether :meth:`check` certainly asks no other process about data so large."""
        return self._check is not None and self._is_told_here(weight)

    def _is_told_here(self, weight: DataWeight) -> bool:
        """Tells whether jsonschema may say here what is wrong with data so large."""
        pairs = weight.nodes * self._weight.nodes
        quoted = pairs * (weight.characters + self._weight.characters)
        return pairs <= EXPLAIN_PAIRS and quoted <= EXPLAIN_CHARACTERS

    def _check_here(self, arguments: Any) -> tuple[ArgumentFault, ...] | None:
        """Checks what certainly takes little; ``None`` where that cannot be told."""
        if self._check is None:
            return None
        weight = weigh(arguments, CHECK_PAIRS)
        if weight.nodes * self._weight.nodes > CHECK_PAIRS:
            return None
        try:
            if self._check(arguments):
                return ()
        except RecursionError:
            return (ArgumentFault(path="arguments", rule="nest too deeply"),)
        if not self._is_told_here(weight):
            return None
        # Only where something is wrong: it brings jsonschema, which is slow to import.
        from vibe_llms.invocables.faults import find_faults, produce_schema_validator

        if self._validator is None:
            self._validator = produce_schema_validator(self.schema, self.name)
        return find_faults(self._validator, arguments, self.name)

    def _consult(self, arguments: Any) -> tuple[ArgumentFault, ...]:
        from vibe_llms.invocables.validator_process import consult

        return consult(self.schema, arguments, self.name)


def produce_validator(schema: JsonObject, name: str = "") -> Validator:
    """Produces the validator of a schema; the expensive parts wait until they are needed.

    Args:
        name: Of what it is the schema, for errors.

    Raises:
        RequestError: The schema is no object.
    """
    if not isinstance(schema, Mapping):
        raise RequestError(
            path="schema",
            detail=f"A schema must be an object, not {type(schema).__name__}.",
            remedy="Pass a JSON Schema as a dict.",
            stage=Stage.CONFIGURE,
        )
    return Validator(schema, name)
