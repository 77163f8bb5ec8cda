"""When a vendor retires a model, and which one to ask in its place."""

from __future__ import annotations

from datetime import date

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.models.attributes import ModelAttributes


@frozen
class Retirement:
    """The end of a model.

    Attributes:
        model: Its name.
        end: The first day on which it cannot be asked any more.
        successor: The model to ask in its place; empty where none is known.
    """

    model: str
    end: date
    successor: str = ""

    def is_over(self, today: date) -> bool:
        """Tell whether the model is retired already."""
        return self.end <= today

    def describe(self, today: date) -> str:
        """Return what there is to know about it, in a sentence."""
        verb = "was retired" if self.is_over(today) else "will be retired"
        advice = f" Use {self.successor}." if self.successor else ""
        return f"The model {self.model} {verb} on {self.end.isoformat()}.{advice}"


def find_retirement(attributes: ModelAttributes) -> Retirement | None:
    """Return the end of a model; ``None`` where no day is known for it."""
    end, successor = attributes.access_value("end_date"), attributes.access_value("successor")
    try:
        day = date.fromisoformat(end) if isinstance(end, str) else None
    except ValueError:  # of a user, in words
        day = None
    if day is None:
        return None
    return Retirement(attributes.address.name, day, successor if isinstance(successor, str) else "")
