"""The keys that all tables of guards have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.plugins.specification.guards import GuardedPart
from vibe_llms.tables.annotations import Strings
from vibe_llms.tables.kinds import Kind, is_list_of
from vibe_llms.tables.reading import require

PARTS: Final[tuple[GuardedPart, ...]] = ("request", "answer", "arguments")

_PARTS = Kind(f"a list of {', '.join(PARTS)}", is_list_of(lambda value: value in PARTS), tuple)


@frozen(kw_only=True)
class GuardSettings:
    """Keys of every table ``[guards.NAME]``; the others are those of its kind.

    Attributes:
        kind: The kind of guard: ``secrets``, ``words``, ``moderator``, ``judge``, or that of a
            plugin.
        parts: The parts to examine: ``request`` and ``answer`` of a model, and the ``arguments`` of
            a tool that is about to be executed.
        models: Patterns of the addresses of the models that it concerns, such as ``openai:*``.
        enabled: False to leave the guard out.
    """

    kind: str
    parts: Annotated[tuple[GuardedPart, ...], _PARTS] = PARTS
    models: Strings = ("*",)
    enabled: bool = True

    def __attrs_post_init__(self) -> None:
        require(self, "guards")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield settings with which the guard never applies: a field, and a sentence."""
        for name in ("parts", "models"):
            if not getattr(self, name):
                yield name, "The list is empty. Remove it for the default."
        for pattern in self.models:
            if ":" not in pattern and not pattern.startswith("*"):
                remedy = f"{pattern}:*" if pattern else "*"
                yield "models", f"{pattern!r} matches no address; write {remedy!r}."
