"""What a translation could not carry over. Nothing is dropped without one of these."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Generic, TypeVar

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.field_types import conform_fields, ensure_members

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


class LossGrade(enum.StrEnum):
    """How serious a loss is, the most serious first.

    ``MEANING``: something was said that the other side does not see. ``FORM``: it sees it in
    another form, or sees something that was made up. ``ROUTINE``: bookkeeping of a vendor's that
    most translations lose, such as the time at which an answer was made.
    """

    MEANING = "meaning"
    FORM = "form"
    ROUTINE = "routine"


@frozen(kw_only=True, field_transformer=conform_fields)
class Loss:
    """One thing that a translation changed, left out, made up or kept back.

    Attributes:
        kind: What became of it.
        path: The place in the request or the response, such as ``canisters[2].content[0]``.
        reason: Why, for a person to read.
        is_routine: Whether it is bookkeeping that most translations lose.
    """

    kind: LossKind
    path: str
    reason: str
    is_routine: bool = False

    @property
    def grade(self) -> LossGrade:
        """How serious it is."""
        if self.is_routine:
            return LossGrade.ROUTINE
        is_gone = self.kind in (LossKind.DROPPED, LossKind.WITHHELD)
        return LossGrade.MEANING if is_gone else LossGrade.FORM

    def __str__(self) -> str:
        return f"{self.kind} {self.path}: {self.reason}"


def rank_losses(losses: Iterable[Loss]) -> list[Loss]:
    """Return the losses that are more than routine, each once, the most serious first."""
    graded: dict[LossGrade, list[Loss]] = {grade: [] for grade in LossGrade}
    for loss in dict.fromkeys(losses):
        graded[loss.grade].append(loss)
    return graded[LossGrade.MEANING] + graded[LossGrade.FORM]


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
