"""What vendors ask for requests of their own batches: facts, with where they were read and when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Discount:
    """A part of the usual price, of every bucket alike.

    Attributes:
        share: What is asked, as a part of the usual price.
        source: Where the vendor says so.
        read: When that was read.
    """

    share: Decimal
    source: str
    read: date


_ANTHROPIC: Final = Discount(
    share=Decimal("0.5"),
    source="https://platform.claude.com/docs/en/build-with-claude/batch-processing",
    read=date(2026, 11, 26),
)
_OPENAI: Final = Discount(
    share=Decimal("0.5"),
    source="https://help.openai.com/en/articles/9197833-batch-api-faq",
    read=date(2026, 11, 26),
)

BATCH_DISCOUNTS: Final[Mapping[str, Discount]] = {
    "anthropic": _ANTHROPIC,
    "openai_conversations": _OPENAI,
    "openai_responses": _OPENAI,
}
"""From the name of a provider here to what its vendor asks for requests of its batches."""
