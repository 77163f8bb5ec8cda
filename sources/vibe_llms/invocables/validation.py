"""Validation of arguments against a schema.

A compiled function checks common schemas. In all other cases, jsonschema decides. It also describes
all faults, and is imported on demand.
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
class DataSize:
    """Size of plain data.

    Attributes:
        nodes: Number of values and keys.
        characters: Total length of all strings.
    """

    nodes: int
    characters: int


def measure_data(value: Any, limit: int) -> DataSize:
    """Measure plain data, which may be cyclic or huge; stop after about `limit` nodes."""
    nodes = characters = 0
    pending = [value]
    while pending and nodes <= limit:
        each = pending.pop()
        nodes += 1
        if isinstance(each, str):
            characters += len(each)
        elif isinstance(each, Mapping):
            nodes += len(each)
            characters += sum(len(key) for key in each if isinstance(key, str))
            pending.extend(each.values())
        elif isinstance(each, (list, tuple)):
            pending.extend(each)
    return DataSize(nodes + len(pending), characters)


CHECK_PAIRS: Final = 1_000_000
"""Maximum number of schema nodes times value nodes for a compiled check in this process, which then
takes at most a tenth of a second."""

EXPLAIN_PAIRS: Final = 20_000
"""Maximum number of schema nodes times value nodes for jsonschema in this process."""

EXPLAIN_CHARACTERS: Final = 30_000_000
"""Maximum of that product times characters, because each fault quotes the value."""


@define(eq=False)
class Validator:
    """Validator of arguments against a schema.

    Common and small cases are checked in this process. As schemas can be untrusted, another process
    with limits checks patterns, references and large data.

    Attributes:
        schema: A JSON Schema; draft 2020-12 unless its ``$schema`` names another.
        name: Owner of the schema, for errors.
    """

    schema: JsonObject
    name: str = ""
    _check: Check | None = attrs.field(init=False, repr=False)
    _size: DataSize = attrs.field(init=False, repr=False)
    _validator: Any = attrs.field(default=None, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._size = measure_data(self.schema, CHECK_PAIRS)
        # A schema that is too large to measure is not compiled either.
        self._check = compile_check(self.schema) if self._size.nodes < CHECK_PAIRS else None

    def check(self, arguments: Any) -> tuple[ArgumentFault, ...]:
        """Return the faults of the arguments; empty if they match the schema.

        This may block while it waits for another process; in an event loop, use :meth:`examine`.

        Raises:
            RequestError: The schema is invalid, has external references, or takes too long.
        """
        faults = self._check_here(arguments)
        return self._consult(arguments) if faults is None else faults

    async def examine(self, arguments: Any) -> tuple[ArgumentFault, ...]:
        """Check like :meth:`check`, without blocking the event loop."""
        faults = self._check_here(arguments)
        if faults is not None:
            return faults
        import asyncio

        return await asyncio.to_thread(self._consult, arguments)

    def is_cheap(self, size: DataSize) -> bool:
        """Return whether :meth:`check` never needs the other process for data of this size."""
        return self._check is not None and self._is_explained_here(size)

    def _is_explained_here(self, size: DataSize) -> bool:
        """Return whether jsonschema may explain faults of data of this size in this process."""
        pairs = size.nodes * self._size.nodes
        quoted = pairs * (size.characters + self._size.characters)
        return pairs <= EXPLAIN_PAIRS and quoted <= EXPLAIN_CHARACTERS

    def _check_here(self, arguments: Any) -> tuple[ArgumentFault, ...] | None:
        """Return the faults in cheap cases; ``None`` if the other process must find them."""
        if self._check is None:
            return None
        size = measure_data(arguments, CHECK_PAIRS)
        if size.nodes * self._size.nodes > CHECK_PAIRS:
            return None
        try:
            if self._check(arguments):
                return ()
        except RecursionError:
            return (ArgumentFault(path="arguments", rule="nest too deeply"),)
        if not self._is_explained_here(size):
            return None
        # Imported only after a fault, because importing jsonschema is slow.
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
