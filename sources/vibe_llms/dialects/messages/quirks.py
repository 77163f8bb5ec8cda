"""What vendors of this dialect do differently, as data."""

from __future__ import annotations

from typing import Final

from vibe_llms.values import frozen

PROTOCOL: Final = "messages"
"""The dialect's stable word, in origins and beside native blocks."""


@frozen(kw_only=True)
class Quirks:
    """One vendor's habits; the defaults are Anthropic's own.

    Attributes:
        limit_tokens: The longest answer where neither the request nor the model's data say,
            for the dialect insists on a number.
        takes_unsigned_reasoning: Whether earlier reasoning may go back without a signature.
        takes_supervisors: Whether instructions may stand amid the conversation.
    """

    limit_tokens: int = 4096
    takes_unsigned_reasoning: bool = False
    takes_supervisors: bool = True
