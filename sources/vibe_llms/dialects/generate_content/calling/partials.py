"""Arguments of a function call in pieces, each with a path.

``{"jsonPath": "$.places[0].name", "stringValue": "Ber", "willContinue": true}``: texts for the
same path are continued as long as ``willContinue`` is true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.foundation.attrs_classes import define

_STEP: Final = re.compile(
    r"""\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)
_LIST_LIMIT: Final = 10_000
"""Maximum length of a list: an error of a vendor must not exhaust memory."""


@define
class PartialArguments:
    """The arguments received so far."""

    value: dict[str, Any] = attrs.field(factory=dict)
    _continued_paths: set[str] = attrs.field(factory=set, init=False)

    def add(self, partial_argument: Mapping[str, Any]) -> None:
        """Add one piece.

        Raises:
            ValueError: The path is invalid.
        """
        piece = camelize(partial_argument)
        path = piece.get("jsonPath", "")
        steps = _read_path(path)
        value = _read_value(piece)
        if path in self._continued_paths and isinstance(value, str):
            before = _access(self.value, steps)
            value = before + value if isinstance(before, str) else value
        _assign(self.value, steps, value)
        if piece.get("willContinue"):
            self._continued_paths.add(path)
        else:
            self._continued_paths.discard(path)


def _read_value(piece: Mapping[str, Any]) -> Any:
    for name in ("stringValue", "numberValue", "boolValue"):
        if piece.get(name) is not None:
            return piece[name]
    return None if "nullValue" in piece else ""


def _read_path(path: str) -> list[str | int]:
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            break
        name, index, single_quoted, double_quoted = match.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(name or single_quoted or double_quoted or "")
        position = match.end()
    # The arguments are an object, which has no numeric keys.
    if not steps or position < len(path) or isinstance(steps[0], int):
        raise ValueError(f"The path {path!r} does not exist.")
    return steps


def _access(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        value = value[step]
    return value


def _assign(value: Any, steps: list[str | int], leaf: Any) -> None:
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int):
            if step > _LIST_LIMIT:
                raise ValueError(f"The index {step} is too large.")
            value.extend([None] * (step + 1 - len(value)))
        if following is None:
            value[step] = leaf
            return
        container: Any = [] if isinstance(following, int) else {}
        child = value[step] if isinstance(step, int) else value.get(step)
        if not isinstance(child, type(container)):
            value[step] = child = container
        value = child
