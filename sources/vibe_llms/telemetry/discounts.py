"""Prices of vendors' batches, each with its source and the date on which it was read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Discount:
    """A share of the usual price, the same for every bucket.

    Attributes:
        share: The price as a fraction of the usual one.
        source: The vendor's page.
        read: The date on which it was read.
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

_GOOGLE: Final = Discount(
    share=Decimal("0.5"),
    source="https://ai.google.dev/gemini-api/docs/batch-api",
    read=date(2026, 11, 29),
)

BATCH_DISCOUNTS: Final[Mapping[str, Discount]] = {
    "anthropic": _ANTHROPIC,
    "google": _GOOGLE,
    "openai_conversations": _OPENAI,
    "openai_responses": _OPENAI,
}
"""Price of a vendor's batches, by the provider's name."""
