"""Reasons why a turn of a model is not an answer: one rule for all interfaces.

A turn that was truncated, refused or failed is not an answer. Nor is a turn without text that
ended for an unknown reason. A turn that the model completed is an answer, even if it is empty. So
is a turn with text or calls whose stop reason we do not know, as many servers have their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    LimitError,
    ProviderError,
    ProviderFault,
    Stage,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, Origin, StopReason
from vibe_llms.messages.contents import Native, ReasoningContent, RefusalContent, TextualContent

_EXPLANATIONS: Final[dict[StopReason, tuple[Literal["limit", "refused", "failed"], str]]] = {
    StopReason.LIMIT: ("limit", "The answer reached the limit of output tokens"),
    StopReason.OVERFLOW: ("limit", "The conversation fills the model's context window"),
    StopReason.REFUSED: ("refused", "The model, or a filter before it, refused"),
    StopReason.FILTERED: ("refused", "The model, or a filter before it, refused"),
    StopReason.FAILED: ("failed", "The vendor could not complete the answer"),
    StopReason.INTERRUPTED: ("failed", "The vendor interrupted the answer"),
    StopReason.PAUSED: ("failed", "The model paused its turn"),
    StopReason.INVOCATION: ("failed", "The model stopped for a tool call, but made none"),
    StopReason.UNKNOWN: ("failed", "The model stopped for an unknown reason"),
}
"""Kind and sentence of each stop reason that does not end an answer."""

_LIMIT_NAMES: Final = {
    StopReason.LIMIT: "max_tokens",
    StopReason.OVERFLOW: "context_window_tokens",
}

_MESSAGE_PATHS: Final = (
    ("candidates", 0, "finishMessage"),
    ("promptFeedback", "blockReasonMessage"),
    ("stop_details", "explanation"),
    ("choices", 0, "error", "message"),
    ("error", "message"),
)
"""Paths at which vendors explain why an answer ended."""

_VAGUE_REASONS: Final = frozenset({"incomplete", "other", "unknown"})
"""Vendors' stop reasons that mean an incomplete answer without saying why."""

_MESSAGE_CHARACTERS: Final = 500


@frozen(kw_only=True)
class Shortfall:
    """The reason why a turn is not an answer.

    Attributes:
        reason: The kind: ``limit``, ``refused`` or ``failed``.
        detail: One sentence, with the vendor's message, if there is one.
        limit: The name of the limit that was reached; empty if none was.
        is_empty: Whether the turn has no content to show.
        model: The address of the model.
    """

    reason: Literal["limit", "refused", "failed"]
    detail: str
    limit: str = ""
    is_empty: bool = False
    model: str = ""

    @property
    def is_failure(self) -> bool:
        """True if the turn has neither a partial answer nor the text of a refusal."""
        return self.is_empty or self.reason == "failed"


def find_shortfall(
    canisters: Sequence[AnyCanister], origin: Origin, native: Native | None = None
) -> Shortfall | None:
    """Return why a turn is not an answer; ``None`` if it is one.

    Args:
        canisters: Canisters of the turn.
        origin: Origin of the turn.
        native: Other vendor data about the response, which may include a message.
    """
    refuses = "refusal" in [each.type for canister in canisters for each in canister.content]
    stop = StopReason.REFUSED if refuses else origin.stop_reason
    if stop is StopReason.ANSWERED or stop is StopReason.STOP_SEQUENCE:
        return None
    if stop is StopReason.INVOCATION and canisters and canisters[-1].role == "invocation":
        return None  # fast path for most turns, which are answers or calls
    native_reason = origin.native_stop_reason or ""
    is_empty = not any(map(_has_output, canisters))
    if not is_empty and stop is StopReason.INVOCATION:
        return None
    is_vague = native_reason.lower() in _VAGUE_REASONS
    if not is_empty and stop is StopReason.UNKNOWN and not is_vague:
        return None  # many servers have reasons of their own for a complete answer, or send none
    reason, detail = _EXPLANATIONS[stop]
    limit = _LIMIT_NAMES.get(stop, "")
    if is_empty and stop is StopReason.LIMIT:
        detail += " before it said anything"
    vendor_texts = [native_reason] if native_reason and not limit and not refuses else []
    vendor_texts += _find_message(native)
    if vendor_texts:
        detail += f": {', '.join(vendor_texts)}"
    return Shortfall(
        reason=reason,
        detail=detail.rstrip(".") + ".",
        limit=limit,
        is_empty=is_empty,
        model=f"{origin.provider}:{origin.model}",
    )


def produce_error(shortfall: Shortfall) -> ConverseError:
    """Make the error to raise when an answer is required."""
    if shortfall.limit == "context_window_tokens":
        return ContextOverflowError(
            model=shortfall.model, detail=shortfall.detail, stage=Stage.DECODE
        )
    if shortfall.limit:
        return LimitError(
            limit=shortfall.limit,
            detail=shortfall.detail,
            remedy="Raise max_tokens, or let the model reason less.",
            stage=Stage.DECODE,
        )
    is_refused = shortfall.reason == "refused"
    return ProviderError(
        provider=shortfall.model.partition(":")[0],
        fault=ProviderFault.BLOCKED if is_refused else ProviderFault.SERVER,
        detail=shortfall.detail,
        remedy="Ask otherwise." if is_refused else "Ask again.",
        stage=Stage.DECODE,
    )


def _has_output(canister: AnyCanister) -> bool:
    if isinstance(canister, InvocationCanister):
        return True
    for content in canister.content:
        if isinstance(content, (TextualContent, RefusalContent)):
            if content.text:
                return True
        elif not isinstance(content, ReasoningContent):
            return True
    return False


def _find_message(native: Native | None) -> list[str]:
    """Find the vendor's message about the end, as one bounded line."""
    if native is None:
        return []
    import msgspec  # most turns are answers

    data = msgspec.json.decode(native.data)
    for path in _MESSAGE_PATHS:
        value: Any = data
        for step in path:
            value = _step_into(value, step)
        if isinstance(value, str) and value.strip():
            line = " ".join(value.split())
            return [line if len(line) <= _MESSAGE_CHARACTERS else f"{line[:_MESSAGE_CHARACTERS]}…"]
    return []


def _step_into(value: Any, step: str | int) -> Any:
    """Return a member of an object, or the first item of a list; ``None`` if there is none."""
    if isinstance(value, dict):
        return value.get(step)
    return value[0] if isinstance(value, list) and step == 0 and value else None
