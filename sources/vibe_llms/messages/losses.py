"""What a translation could not carry over. Nothing is dropped without one of these."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Generic, TypeVar

import attrs

_T = TypeVar("_T")


class LossKind(enum.StrEnum):
    """What became of the thing."""

    COERCED = "coerced"
    DROPPED = "dropped"
    SYNTHESIZED = "synthesized"
    WITHHELD = "withheld"


@attrs.frozen(kw_only=True)
class Loss:
    """One thing that a translation changed, left out, made up or kept back.

    Attributes:
        path: The place in the request or the response, such as ``canisters[2].content[0]``.
        reason: Why, for a person to read.
    """

    kind: LossKind
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path}: {self.reason}"


def _freeze_losses(items: Iterable[Loss]) -> tuple[Loss, ...]:
    return tuple(items)


@attrs.frozen
class Translation(Generic[_T]):
    """The outcome of a translation, and what it could not carry over."""

    value: _T
    losses: tuple[Loss, ...] = attrs.field(default=(), converter=_freeze_losses)
