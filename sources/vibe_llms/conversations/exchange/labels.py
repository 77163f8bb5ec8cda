"""Labels and descriptions for human-readable documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from vibe_llms.conversations.exchange.interfaces import Exportable
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.exceptions import StoreError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    Usage,
)
from vibe_llms.messages.contents import FileContent, MediaContent

ROLE_LABELS = {
    "user": "User",
    "assistant": "Assistant",
    "supervisor": "Instructions",
    "document": "Document",
    "invocation": "Invocation",
    "result": "Result",
}
_USUAL_STOP_REASONS = {StopReason.ANSWERED, StopReason.INVOCATION, StopReason.UNKNOWN}


def name_conversation(conversation: Exportable) -> str:
    """Return the display name of a conversation."""
    return conversation.metadata.name or f"Conversation {conversation.id}"


def describe_moment(moment: datetime) -> str:
    """Format a time for people, in UTC, to the second."""
    try:
        return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:  # of the first or the last year, in another time zone
        return moment.isoformat(" ", "seconds")


def describe_usage(usage: Usage) -> str:
    """Describe the known numbers of input and output tokens."""
    parts = []
    if usage.total_input_tokens is not None:
        parts.append(f"{usage.total_input_tokens:,} tokens in")
    if usage.total_output_tokens is not None:
        parts.append(f"{usage.total_output_tokens:,} tokens out")
    return ", ".join(parts)


def describe_origin(origin: Origin) -> str:
    """Describe the model, and the stop reason if it is notable."""
    model = f"{origin.provider}:{origin.model}"
    if origin.stop_reason in _USUAL_STOP_REASONS:
        return model
    return f"{model} (stopped: {origin.stop_reason})"


def access_origin(canister: AnyCanister) -> Origin | None:
    """Return the origin of a canister, if it came from a model."""
    if isinstance(canister, (AssistantCanister, InvocationCanister, ResultCanister)):
        return canister.origin
    return None


def describe_turn_usage(canisters: Sequence[AnyCanister], index: int) -> str:
    """Describe the usage of a turn, if the canister at an index is the last of its turn."""
    canister = canisters[index]
    origin = access_origin(canister)
    if origin is None or origin.usage is None:
        return ""
    next_canister = canisters[index + 1] if index + 1 < len(canisters) else None
    turn_id = canister.turn_id
    if turn_id is not None and next_canister is not None and next_canister.turn_id == turn_id:
        return ""
    return describe_usage(origin.usage)


def label_canister(canister: AnyCanister) -> str:
    """Return a label of a canister: its author or kind."""
    label = ROLE_LABELS[canister.role]
    match canister:
        case DocumentCanister(title=str(title)) if title:
            return f"{label}: {title}"
        case InvocationCanister(name=name):
            return f"{label}: {name}"
        case ResultCanister(name=name, is_error=is_error):
            label = "Error" if is_error else label
            return f"{label}: {name}" if name else label
    return label


def name_media(content: MediaContent) -> str:
    """Return the display name of media: their name or kind."""
    title = content.title if isinstance(content, FileContent) else None
    return content.name or title or f"{content.type} without a name"


def is_followable(url: str) -> bool:
    """Return whether an address may become a link: it must be a web page or a mailbox."""
    return url.lower().startswith(("https://", "http://", "mailto:"))


def read_media(content: MediaContent, content_store: ContentStore) -> bytes | None:
    """Return the bytes of media; ``None`` if they are missing or damaged.

    A document for people shows the gap; that is better than no document.
    """
    if content.data is not None or content.content_id is None:
        return content.data
    try:
        return content_store.read(content.content_id)
    except StoreError:
        return None
