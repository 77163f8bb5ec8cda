"""Items of a list, each as soon as it is complete."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.instruments.parsers.json_reader import is_growing
from vibe_llms.instruments.parsers.partials import unwrap
from vibe_llms.instruments.parsers.target_types import WRAP, InvalidAnswer, TargetType, derive_kind
from vibe_llms.invocables.validation import CHECK_PAIRS, measure_data


class ItemReader:
    """Creates values from the items of an array that is being received.

    Args:
        kind: The type of the items.
    """

    def __init__(self, kind: TargetType) -> None:
        self._kind = kind
        self._count = 0
        self._has_failed = False  # an item was invalid

    async def take(self, plain: Any) -> list[Any]:
        """Return the items that were completed since the last call, as values.

        Args:
            plain: The part of the whole answer received so far.
        """
        complete = self._list_complete(plain)
        if all(
            self._kind.converts_in_process(measure_data(item, CHECK_PAIRS)) for item in complete
        ):
            return self._make(complete)
        import asyncio

        return await asyncio.to_thread(self._make, complete)

    def _list_complete(self, plain: Any) -> list[Any]:
        if isinstance(plain, dict):
            plain = plain.get(WRAP)
        if not isinstance(plain, list) or self._has_failed:
            return []
        return list(takewhile(lambda item: not is_growing(item), plain[self._count :]))

    def _make(self, complete: list[Any]) -> list[Any]:
        values = []
        for item in complete:
            try:
                values.append(self._kind.make(item))
            except InvalidAnswer:  # reported when the whole answer is read
                self._has_failed = True
                break
        self._count += len(values)
        return values

    def list_rest(self, value: Any) -> list[Any]:
        """Return the items of the complete value that have not been yielded."""
        return list(value)[self._count :]


def derive_item_kind(kind: TargetType, name: str, context: Any) -> TargetType:
    """Derive the type of the items of a list.

    Args:
        kind: The type of the list.
        name: The name of its parser, for errors.
        context: The context for pydantic's validators.

    Raises:
        RequestError: The type is not a list.
    """
    hint = unwrap(kind.hint)
    members = typing.get_args(hint)
    is_record = typing.get_origin(hint) is tuple and members[-1] is not Ellipsis
    if is_record or not kind.is_list:
        raise RequestError(
            path="kind",
            detail=f"{kind.name} has no items to follow.",
            remedy="Parse a list, such as list[City].",
            stage=Stage.CONFIGURE,
        )
    item = members[0] if members else _find_item(kind.schema)
    return derive_kind(item, name, context=context)


def _find_item(schema: Any) -> Any:
    items = schema["properties"][WRAP].get("items")
    definitions = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return {**items, **definitions} if isinstance(items, Mapping) else Any
