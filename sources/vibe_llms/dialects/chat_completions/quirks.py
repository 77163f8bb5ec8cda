"""What vendors of this dialect do differently, as data."""

from __future__ import annotations

from typing import Final

import attrs

PROTOCOL: Final = "chat_completions"
"""The dialect's stable word, in origins and beside native blocks."""


@attrs.frozen(kw_only=True)
class Quirks:
    """One vendor's habits; the defaults are OpenAI's own.

    Attributes:
        supervisor_role: The role of instructions: ``system`` or ``developer``.
        limit_field: The field that bounds the answer's tokens.
        reasoning_field: Where the vendor wants earlier reasoning back, such as
            ``reasoning_content``; ``None`` where it takes none.
        takes_parts: Whether a message's content may be a list; else texts are joined.
        takes_refusals: Whether an earlier refusal has a field of its own.
    """

    supervisor_role: str = "system"
    limit_field: str = "max_completion_tokens"
    reasoning_field: str | None = None
    takes_parts: bool = True
    takes_refusals: bool = True
