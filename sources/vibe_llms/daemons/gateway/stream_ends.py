"""The end of a passthrough stream, judged by its last events: complete, truncated or failed."""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from vibe_llms.exceptions import ConverseError, StreamTruncatedError
from vibe_llms.foundation.json_errors import UNREADABLE

_Fields: TypeAlias = Mapping[str, Any]

_KEPT_EVENTS: Final = 6
"""Number of events to keep: usage and filter results may follow the event that ends an answer."""

_DONE: Final = b"[DONE]"
_RESPONSE_ENDS: Final = tuple(  # not a set: the value of a field may be unhashable
    f"response.{word}" for word in ("completed", "incomplete", "failed", "cancelled")
)


def _ends_chat(fields: _Fields) -> bool:
    return any(each.get("finish_reason") for each in _list_mappings(fields.get("choices")))


def _ends_responses(fields: _Fields) -> bool:
    return fields.get("type") in _RESPONSE_ENDS


def _ends_messages(fields: _Fields) -> bool:
    return fields.get("type") == "message_stop"


def _ends_gemini(fields: _Fields) -> bool:
    candidates = _list_mappings(fields.get("candidates"))
    feedback = fields.get("promptFeedback")
    is_blocked = isinstance(feedback, Mapping) and bool(feedback.get("blockReason"))
    return is_blocked or any(each.get("finishReason") for each in candidates)


def _ends_interactions(fields: _Fields) -> bool:
    return fields.get("event_type") == "interaction.completed"


def _ends_bedrock(fields: _Fields) -> bool:
    return bool(fields.get("stopReason"))


def _ends_ollama(fields: _Fields) -> bool:
    return bool(fields.get("done"))


_ENDS: Final[Mapping[str, Callable[[_Fields], bool]]] = {
    "chat_completions": _ends_chat,
    "responses": _ends_responses,
    "messages": _ends_messages,
    "generate_content": _ends_gemini,
    "interactions": _ends_interactions,
    "bedrock": _ends_bedrock,
    "ollama_chat": _ends_ollama,
}
"""By protocol: a function that returns whether an event completes the answer."""


class EndWatch:
    """The last events of a stream."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._last: deque[bytes] = deque(maxlen=_KEPT_EVENTS)

    def feed(self, data: bytes) -> None:
        """Keep an event if it is among the last."""
        if data:
            self._last.append(data)

    def feed_whole(self, data: bytes) -> None:
        """Keep the end of an answer that is one JSON value, possibly an array of events."""
        try:
            fields = msgspec.json.decode(data)
        except UNREADABLE:
            return
        if isinstance(fields, list):
            self._last.extend(map(msgspec.json.encode, fields[-_KEPT_EVENTS:]))
        elif isinstance(fields, Mapping):
            self._last.extend((data, _DONE))  # not a stream, so it is complete

    def find_failure(self, provider: str, model: str) -> ConverseError | None:
        """Return the error in the last events, or a truncation; ``None`` for a complete answer."""
        is_end = _ENDS[self._protocol]
        is_whole = False
        for data in self._last:
            if data.strip() == _DONE:
                is_whole = True
                continue
            try:
                fields = msgspec.json.decode(data)
            except UNREADABLE:
                continue
            if not isinstance(fields, Mapping):
                continue
            if is_error(fields):
                module = importlib.import_module(
                    f"vibe_llms.dialects.{self._protocol}.calling.errors"
                )
                error: ConverseError = module.produce_error(fields, provider=provider, model=model)
                return error
            is_whole = is_whole or is_end(fields)
        if is_whole:
            return None
        return StreamTruncatedError(
            detail=f"The stream of {provider} ended before its response was complete."
        )


def is_error(fields: _Fields) -> bool:
    """Return whether an event is an error; the field has one name in all protocols."""
    if fields.get("type") == "response.failed":
        return True
    return fields.get("type") == "error" or bool(fields.get("error"))


def _list_mappings(value: object) -> Iterable[_Fields]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
