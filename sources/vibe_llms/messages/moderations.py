"""Verdicts about texts that may be harmful, and the request for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.call_results import CallResultSequence, join_losses, join_origins
from vibe_llms.messages.vectors import ensure_texts


@frozen(kw_only=True)
class ModerationRequest:
    """A request for verdicts about texts.

    Attributes:
        texts: The texts; one verdict is returned for each, in this order.
        strict: Raise an error if the translation loses anything.

    Raises:
        RequestError: There are no texts, or one of them is blank.
    """

    texts: tuple[str, ...] = attrs.field(converter=ensure_texts)
    strict: bool = False


@frozen(kw_only=True)
class ModerationVerdict:
    """The verdict about one text.

    Attributes:
        categories: The categories of harm that the text belongs to, in the vendor's words.
        scores: The score of each category, from 0 to 1.
    """

    categories: tuple[str, ...]
    scores: Mapping[str, float]

    @property
    def is_harmful(self) -> bool:
        """True if the text belongs to a category of harm."""
        return bool(self.categories)


@frozen(kw_only=True)
class Moderation(CallResultSequence[ModerationVerdict]):
    """Verdicts about texts, in their order.

    Attributes:
        verdicts: One for each text.
    """

    verdicts: tuple[ModerationVerdict, ...]

    @property
    def is_harmful(self) -> bool:
        """True if one of the texts is harmful."""
        return any(verdict.is_harmful for verdict in self.verdicts)

    @property
    def _items(self) -> tuple[ModerationVerdict, ...]:
        return self.verdicts


def join_moderations(parts: Sequence[Moderation]) -> Moderation:
    """Return the verdicts of several requests as one value."""
    if len(parts) == 1:
        return parts[0]
    verdicts = tuple(verdict for part in parts for verdict in part)
    return Moderation(verdicts=verdicts, origin=join_origins(parts), losses=join_losses(parts))


def split_moderation(moderation: Moderation) -> list[Moderation]:
    """Return the verdict about each text as a value of its own."""
    return [attrs.evolve(moderation, verdicts=(verdict,)) for verdict in moderation]
