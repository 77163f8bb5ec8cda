"""What a translation could not carry over. Nothing is dropped without one of these."""

from __future__ import annotations

import enum

import attrs


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
