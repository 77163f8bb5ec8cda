"""Retirement of models: the day, and the successor."""

from __future__ import annotations

from datetime import date

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.models.attributes import ModelAttributes


@frozen
class Retirement:
    """The retirement of a model.

    Attributes:
        model: Name of the model.
        end: The first day on which the model is unavailable.
        successor: The model to use instead; empty if none is known.
    """

    model: str
    end: date
    successor: str = ""

    def is_over(self, today: date) -> bool:
        """Return whether the model is retired already."""
        return self.end <= today

    def describe(self, today: date) -> str:
        """Return a sentence about the retirement."""
        verb = "was retired" if self.is_over(today) else "will be retired"
        advice = f" Use {self.successor}." if self.successor else ""
        return f"The model {self.model} {verb} on {self.end.isoformat()}.{advice}"


def find_retirement(attributes: ModelAttributes) -> Retirement | None:
    """Return the retirement of a model; ``None`` if no day is known."""
    end, successor = attributes.access_value("end_date"), attributes.access_value("successor")
    try:
        day = date.fromisoformat(end) if isinstance(end, str) else None
    except ValueError:  # the user has written another text
        day = None
    if day is None:
        return None
    return Retirement(attributes.address.name, day, successor if isinstance(successor, str) else "")
