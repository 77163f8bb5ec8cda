"""Function calls, complete or with arguments in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from vibe_llms.dialects.extras import collect_extras, merge, without, write_json
from vibe_llms.dialects.generate_content.calling.partials import PartialArguments
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.foundation.attrs_classes import define

_STREAMING_FIELDS = ("partialArgs", "willContinue")
_CALL_FIELDS = frozenset({"id", "name", "args"})


@define(kw_only=True)
class StreamedFunctionCall:
    """One call that is being received.

    Attributes:
        index: Index of its content.
        extras: Extras of its part.
        is_continued: Whether the vendor has announced further pieces.
    """

    index: int
    extras: dict[str, Any] = attrs.field(factory=dict)
    is_continued: bool = False
    _args: Mapping[str, Any] | None = attrs.field(default=None, init=False)
    _partial: PartialArguments | None = attrs.field(default=None, init=False)

    def add(self, part: Mapping[str, Any], piece: Mapping[str, Any]) -> None:
        """Add a part with a piece of the call.

        Args:
            part: The part.
            piece: The field ``functionCall`` of the part, keys in camel case.

        Raises:
            ValueError: The path of an argument is invalid.
        """
        plain = {**part, "functionCall": without(piece, *_STREAMING_FIELDS)}
        self.extras = merge(self.extras, read_call_extras(plain))
        if piece.get("args") is not None:
            self._args = piece["args"]
        for partial_argument in piece.get("partialArgs") or ():
            self._partial = self._partial or PartialArguments()
            self._partial.add(partial_argument)
        self.is_continued = bool(piece.get("willContinue"))

    @property
    def arguments(self) -> str:
        """The arguments as JSON text."""
        if self._partial is not None:
            return write_json({**(self._args or {}), **self._partial.value})
        return write_json(self._args or {})


def read_call_extras(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a part with ``functionCall`` other than id, name and arguments."""
    extras = collect_extras(camelize(part["functionCall"]), _CALL_FIELDS)
    return without(part, "functionCall") | ({"functionCall": extras} if extras else {})
