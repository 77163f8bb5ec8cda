"""Why an answer ended, in the words of a protocol that may have fewer than there are reasons.

An answer that is not whole goes as one that is not, if need be as one that a limit has cut:
nobody is to take it for the end. What the word does not say is told as a loss.
"""

from __future__ import annotations

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.messages.canisters import Origin, StopReason


def keeps_word(origin: Origin, protocol: str) -> bool:
    """Tells whether the vendor's own word goes: it spoke this protocol, and had said why.

    A stream that somebody left has no such word, and must not look as if it had come to its end.
    """
    is_left = origin.native_stop_reason is None and origin.stop_reason is StopReason.INTERRUPTED
    return origin.protocol == protocol and not is_left


def tell_stop(origin: Origin, word: str, understood: StopReason, ledger: Ledger) -> None:
    """Takes down that an answer ended for another reason than the word says.

    Args:
        understood: What whoever reads the word will take for the reason.
    """
    if understood is not origin.stop_reason:
        reason = f"{origin.stop_reason} goes as {word!r}: this protocol has no word for it"
        ledger.coerce("metadata.origin.stop_reason", reason)
