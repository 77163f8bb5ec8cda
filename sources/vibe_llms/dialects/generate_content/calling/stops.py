"""Why a candidate ended, in the vendor's words and in common ones."""

from __future__ import annotations

from vibe_llms.dialects.generate_content.tables import STOP_REASONS
from vibe_llms.messages.canisters import StopReason


def normalize_stop(word: str, *, calls: bool) -> StopReason:
    """Returns the common word; the vendor says ``STOP`` where it waits for results, too.

    Args:
        calls: Whether the answer asks for an invocation of ours.
    """
    reason = STOP_REASONS.get(word, StopReason.UNKNOWN)
    return StopReason.INVOCATION if calls and reason is StopReason.ANSWERED else reason
