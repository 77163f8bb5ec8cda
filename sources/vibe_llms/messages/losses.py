"""Losses of a translation: a record of everything that it changed or dropped."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import attrs

from vibe_llms.exceptions import TranslationLossError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.field_types import conform_fields, ensure_members

_T = TypeVar("_T")


class LossKind(enum.StrEnum):
    """Kind of a loss.

    ``COERCED``: sent in another form. ``DROPPED``: not sent. ``SYNTHESIZED``: made up, because the
    vendor requires it. ``WITHHELD``: not sent, but kept for the vendor it belongs to.
    """

    COERCED = "coerced"
    DROPPED = "dropped"
    SYNTHESIZED = "synthesized"
    WITHHELD = "withheld"


class LossGrade(enum.StrEnum):
    """Severity of a loss, the most serious first.

    ``MEANING``: the receiver does not get a part of the message. ``FORM``: the receiver gets a part
    in another form, or gets something that was made up. ``ROUTINE``: a vendor's bookkeeping that
    most translations lose, such as the time of an answer.
    """

    MEANING = "meaning"
    FORM = "form"
    ROUTINE = "routine"


@frozen(kw_only=True, field_transformer=conform_fields)
class Loss:
    """One thing that a translation changed, left out, made up or withheld.

    Attributes:
        kind: The kind of loss.
        path: The place in the request or the response, such as ``canisters[2].content[0]``.
        reason: The reason, for people.
        is_routine: Whether it is bookkeeping that most translations lose.
    """

    kind: LossKind
    path: str
    reason: str
    is_routine: bool = False

    @property
    def grade(self) -> LossGrade:
        """The severity."""
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


def ensure_losses(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Return losses as a tuple. Raises RequestError if one is not a loss."""
    if not losses and losses.__class__ in (list, tuple):  # most translations lose nothing
        return ()
    return ensure_members(losses, (Loss,), "losses")


@frozen(slots=False)
class Translation(Generic[_T]):
    """The result of a translation, and its losses.

    Attributes:
        value: The result.
        losses: The parts that were changed, left out, made up or withheld; may be empty.
    """

    value: _T
    losses: tuple[Loss, ...] = attrs.field(default=(), converter=ensure_losses)


def refuse_losses(losses: Sequence[Loss]) -> None:
    """Raise TranslationLossError if there are losses."""
    if losses:
        raise TranslationLossError(
            losses=tuple(str(loss) for loss in losses),
            remedy="Change the request, or remove strict.",
        )
