"""A function call as it comes: whole, or its arguments in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from vibe_llms.dialects.extras import leave, merge, without, write_json
from vibe_llms.dialects.generate_content.calling.partials import PartialArguments
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.foundation.attrs_classes import define

_STREAMED = ("partialArgs", "willContinue")


@define(kw_only=True)
class StreamedFunctionCall:
    """One call that is being read.

    Attributes:
        index: Of its content.
        extras: Of its part.
        goes_on: Whether the vendor said that more of it will come.
    """

    index: int
    extras: dict[str, Any] = attrs.field(factory=dict)
    goes_on: bool = False
    _args: Mapping[str, Any] | None = attrs.field(default=None, init=False)
    _partial: PartialArguments | None = attrs.field(default=None, init=False)

    def add(self, part: Mapping[str, Any], piece: Mapping[str, Any]) -> None:
        """Takes a part in; ``piece`` is its call. Raises ValueError for a path to nowhere."""
        plain = {**part, "functionCall": without(piece, *_STREAMED)}
        self.extras = merge(self.extras, read_call_extras(plain))
        if piece.get("args") is not None:
            self._args = piece["args"]
        for given in piece.get("partialArgs") or ():
            self._partial = self._partial or PartialArguments()
            self._partial.add(given)
        self.goes_on = bool(piece.get("willContinue"))

    @property
    def arguments(self) -> str:
        """The arguments as JSON text."""
        if self._partial is not None:
            return write_json({**(self._args or {}), **self._partial.value})
        return write_json(self._args or {})


def read_call_extras(part: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a part with ``functionCall`` holds beside id, name and arguments."""
    rest = leave(camelize(part["functionCall"]), ("id", "name", "args"))
    return without(part, "functionCall") | ({"functionCall": rest} if rest else {})
