"""Validation of arguments against a schema.

Common schemas are checked by a compiled function (``checks``); jsonschema, which decides everything
else and every fault, is loaded when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.argument_faults import ArgumentFault
from vibe_llms.invocables.schema_compiler import Check, compile_check


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
