"""Status of a conversation: an unanswered message or an incomplete answer."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from vibe_llms.messages.canisters import AnyCanister, Origin, StopReason
from vibe_llms.messages.views import answer_text

CONTINUE_MESSAGE = "Continue where you stopped."
"""The message sent in the user's name to continue an answer."""

_CUTS = {
    StopReason.LIMIT: "The answer was cut off at its length limit.",
    StopReason.OVERFLOW: "The answer was cut off: the conversation fills the model's window.",
    StopReason.FILTERED: "The answer was stopped by the vendor's content filter.",
}


class ChatStatus(enum.Enum):
    """State of the last turn; the value describes it to the user, with the effect of /continue."""

    FINISHED = "The last answer is complete."
    UNANSWERED = "The last message has no answer; /continue asks for one."
    UNFINISHED = "The last answer is incomplete; /continue continues it."
    CUT = "The last answer was cut off; /continue continues it."
    INTERRUPTED = "The last answer was interrupted; /continue continues it."
    BROKEN = "The last answer broke off before any text arrived; /continue asks again."


def read_status(canisters: Sequence[AnyCanister]) -> ChatStatus:
    """Derive the status from the last canisters; supervisor messages are ignored."""
    from vibe_llms.engine.tails import read_tail  # only continued conversations need it

    end = len(canisters)
    while end and canisters[end - 1].role == "supervisor":
        end -= 1
    if not end or getattr(canisters[end - 1], "summarizes", None):  # the summary of what was said
        return ChatStatus.FINISHED
    if canisters[end - 1].role in ("user", "document"):
        return ChatStatus.UNANSWERED
    tail = read_tail(canisters[:end])
    if tail.is_broken_off:
        text = answer_text(canisters[tail.start : end])
        return ChatStatus.INTERRUPTED if text else ChatStatus.BROKEN
    if tail.is_paused or not tail.ends_with_assistant:
        return ChatStatus.UNFINISHED
    if tail.stop_reason in (StopReason.LIMIT, StopReason.OVERFLOW):
        return ChatStatus.CUT
    return ChatStatus.FINISHED


def describe_cut(origin: Origin | None) -> str:
    """Describe why an answer is incomplete; empty if it is complete."""
    return "" if origin is None else _CUTS.get(origin.stop_reason, "")
