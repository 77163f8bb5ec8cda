"""What a translation could not carry over. Nothing is dropped without one of these."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Generic, TypeVar

import attrs

from vibe_llms.messages.field_types import conform_fields, ensure_members
from vibe_llms.values import frozen

_T = TypeVar("_T")


class LossKind(enum.StrEnum):
    """What became of something that a translation could not carry over.

    ``COERCED``: it goes in another form. ``DROPPED``: it does not go. ``SYNTHESIZED``: it was made
    up, because the vendor insists on it. ``WITHHELD``: it is kept back, and goes where it belongs.
    """

    COERCED = "coerced"
    DROPPED = "dropped"
    SYNTHESIZED = "synthesized"
    WITHHELD = "withheld"


@frozen(kw_only=True, field_transformer=conform_fields)
class Loss:
    """One thing that a translation changed, left out, made up or kept back.

    Attributes:
        kind: What became of it.
        path: The place in the request or the response, such as ``canisters[2].content[0]``.
        reason: Why, for a person to read.
    """

    kind: LossKind
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path}: {self.reason}"


def ensure_losses(given: Iterable[Loss]) -> tuple[Loss, ...]:
    """Makes a tuple of losses. Raises RequestError for anything else among them."""
    if not given and given.__class__ in (list, tuple):  # as of most translations
        return ()
    return ensure_members(given, (Loss,), "losses")


@frozen(slots=False)
class Translation(Generic[_T]):
    """The outcome of a translation, and what it could not carry over.

    Attributes:
        value: The outcome.
        losses: What was changed, left out, made up or kept back; empty where all went over.
    """

    value: _T
    losses: tuple[Loss, ...] = attrs.field(default=(), converter=ensure_losses)
