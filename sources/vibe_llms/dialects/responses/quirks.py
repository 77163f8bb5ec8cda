"""What vendors of this dialect do differently, as data."""

from __future__ import annotations

from typing import Final

from vibe_llms.values import frozen

PROTOCOL: Final = "responses"
"""The dialect's stable word, in origins and beside native blocks."""


@frozen(kw_only=True)
class Quirks:
    """One vendor's habits; the defaults are OpenAI's own.

    Attributes:
        supervisor_role: The role of instructions: ``system`` or ``developer``.
        is_stateless: Whether the vendor is asked, by default, to store nothing and to hand out
            reasoning signed instead, so that any later request can hold it.
        takes_reasoning: Whether readable reasoning of others may be sent; vendors of open models
            take it, OpenAI takes only what it has signed.
        takes_audio: Whether a message may hold sound.
        siblings: Further faces of the same service, with the same uploaded files; see
            :class:`vibe_llms.dialects.ledger.Ledger`.
        extra_controls: Controls that go by their own names though OpenAI has no such parameter.
    """

    supervisor_role: str = "system"
    is_stateless: bool = True
    takes_reasoning: bool = False
    takes_audio: bool = False
    siblings: tuple[tuple[str, str], ...] = ()
    extra_controls: frozenset[str] = frozenset()
