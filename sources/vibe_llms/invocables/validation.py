"""Validation of arguments against a schema, with faults in words that a model can act on.

Common schemas are checked by a compiled function (``checks``); jsonschema, which decides everything
else and every fault, is loaded when it is needed.
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
"""Maximum number of faults in one message: a model corrects the first ones first."""


_SHOWN_CHARACTERS: Final = 80


@frozen(kw_only=True)
class ArgumentFault:
    """One fault of arguments.

    Attributes:
        path: The place, such as ``arguments.places[0].name``.
        rule: The rule, and the given value, in words.
    """

    path: str
    rule: str

    def __str__(self) -> str:
        return f"{self.path}: {self.rule}"


class Misfit(ValueError):
    """An argument that a function cannot take, even if the schema has accepted it.

    Args:
        rule: The rule, in words.
        path: The place within the arguments, such as ``.places[0]``.
        others: Further faults that were found at the same time.
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
        """All faults, at most ``FAULTS_LIMIT``."""
        return tuple(each.fault for each in (self, *self.others))[:FAULTS_LIMIT]

    def move(self, place: str) -> Misfit:
        """Return the same for a value at a place within another."""
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


def list_faults(faults: Sequence[ArgumentFault]) -> str:
    """Return the faults of a result, one per line."""
    return "".join(
        f"\n- {fault.path.replace('arguments', 'result', 1)}: {fault.rule}" for fault in faults
    )


def refuse_schema(name: str, detail: str, *, is_told: bool = False) -> RequestError:
    """Create the error for a schema that cannot be applied.

    Args:
        name: Owner of the schema; may be empty.
        detail: The reason, as a part of a sentence.
        is_told: The detail is a complete message from another process.
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
    """Size of plain data.

    Attributes:
        nodes: Values and keys.
        characters: Of all strings.
    """

    nodes: int
    characters: int


def weigh(value: Any, limit: int) -> DataWeight:
    """Measure data, and stop soon after so many nodes: also for cyclic and huge data."""
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
"""Maximum pairs of a schema node and a value node for a check in this process: a tenth of a second
at worst."""

EXPLAIN_PAIRS: Final = 20_000
EXPLAIN_CHARACTERS: Final = 30_000_000
"""Maximum pairs times characters for jsonschema in this process: each fault quotes the value."""


@define(eq=False)
class Validator:
    """Validator of arguments against a schema.

    Common and small cases are checked here. Patterns, references and large data are checked by
    another process, within limits: a schema may be a stranger's.

    Attributes:
        schema: A JSON Schema; draft 2020-12 unless its ``$schema`` names another.
        name: Owner of the schema, for errors.
    """

    schema: JsonObject
    name: str = ""
    _check: Check | None = attrs.field(init=False, repr=False)
    _weight: DataWeight = attrs.field(init=False, repr=False)
    _validator: Any = attrs.field(default=None, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._weight = weigh(self.schema, CHECK_PAIRS)
        # A schema that is too large to measure is not compiled either.
        self._check = compile_check(self.schema) if self._weight.nodes < CHECK_PAIRS else None

    def check(self, arguments: Any) -> tuple[ArgumentFault, ...]:
        """Return the faults of the arguments; empty if they fit.

        May wait for another process; :meth:`examine` does not block the event loop for it.

        Raises:
            RequestError: The schema is invalid, has external references, or takes too long.
        """
        faults = self._check_here(arguments)
        return self._consult(arguments) if faults is None else faults

    async def examine(self, arguments: Any) -> tuple[ArgumentFault, ...]:
        """Do the same as :meth:`check` without blocking the event loop."""
        faults = self._check_here(arguments)
        if faults is not None:
            return faults
        import asyncio

        return await asyncio.to_thread(self._consult, arguments)

    def is_at_hand(self, weight: DataWeight) -> bool:
        """Return whether :meth:`check` certainly needs no other process for data of this size."""
        return self._check is not None and self._is_told_here(weight)

    def _is_told_here(self, weight: DataWeight) -> bool:
        """Return whether jsonschema may run in this process for data of this size."""
        pairs = weight.nodes * self._weight.nodes
        quoted = pairs * (weight.characters + self._weight.characters)
        return pairs <= EXPLAIN_PAIRS and quoted <= EXPLAIN_CHARACTERS

    def _check_here(self, arguments: Any) -> tuple[ArgumentFault, ...] | None:
        """Check cheap cases; ``None`` if the costs are unknown."""
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
        # Only after a fault: it imports jsonschema, which is slow.
        from vibe_llms.invocables.faults import find_faults, produce_schema_validator

        if self._validator is None:
            self._validator = produce_schema_validator(self.schema, self.name)
        return find_faults(self._validator, arguments, self.name)

    def _consult(self, arguments: Any) -> tuple[ArgumentFault, ...]:
        from vibe_llms.invocables.validator_process import consult

        return consult(self.schema, arguments, self.name)


def produce_validator(schema: JsonObject, name: str = "") -> Validator:
    """Create the validator of a schema; expensive parts are created on first use.

    Args:
        name: Owner of the schema, for errors.

    Raises:
        RequestError: The schema is not an object.
    """
    if not isinstance(schema, Mapping):
        raise RequestError(
            path="schema",
            detail=f"A schema must be an object, not {type(schema).__name__}.",
            remedy="Pass a JSON Schema as a dict.",
            stage=Stage.CONFIGURE,
        )
    return Validator(schema, name)
