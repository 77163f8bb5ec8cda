"""Sanitize and truncate upstream error text: one bounded line, without secrets.

Our errors contain messages from vendors, and a vendor or a proxy may repeat secrets that it
received. So this module sanitizes every error of an exchange once.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.events.stream import NativeEvent
from vibe_llms.exceptions import ConverseError, ForeignError, Stage
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.error_facts import access_facts
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.scrubbing import Scrubber

LONGEST_CHARACTERS: Final = 2_000
"""Maximum characters of one text in an error; vendors' messages for people are shorter."""

_DEPTH: Final = 8
_DATA_ATTRIBUTES: Final = ("doc", "object", "body", "response")
"""Attributes in which foreign errors store the data that they could not read."""


def clean_error(error: ConverseError, secrets: Iterable[Secret]) -> ConverseError:
    """Remove secrets from an error and its causes, and put each text on one line.

    Tracebacks are removed, too, as they may show variables.

    Args:
        secrets: Values to remove; anything that looks like a key is removed anyway.

    Returns:
        The sanitized error, which is the given object.
    """
    _clean(error, Scrubber(secrets), _DEPTH)
    return error.with_traceback(None)


@define
class EventCleaner:
    """Removes secrets from unknown events, in any of their texts.

    Attributes:
        list_secrets: Returns the values to remove; called at the first event.
    """

    list_secrets: Callable[[], Iterable[Secret]]
    _scrubber: Scrubber | None = attrs.field(default=None, init=False)

    def clean(self, event: NativeEvent) -> NativeEvent:
        """Return the event without secrets."""
        if self._scrubber is None:  # created when needed, as that takes a millisecond
            self._scrubber = Scrubber(self.list_secrets())
        scrubber, text = self._scrubber, event.kind + event.native.data
        if scrubber.scrub_text(text) == text:
            return event
        data = json.dumps(_scrub_json(json.loads(event.native.data), scrubber), ensure_ascii=False)
        native = attrs.evolve(event.native, data=data)
        return attrs.evolve(event, kind=scrubber.scrub_text(event.kind), native=native)


def decode_answer(
    answer: bytes, who: str, clean: Callable[[ConverseError], ConverseError]
) -> JsonValue:
    """Decode a JSON answer.

    Args:
        who: The subject of the error's sentence, such as ``openai answered /models``.
        clean: Sanitizes the error.

    Raises:
        ConverseError: The answer is invalid JSON.
    """
    try:
        value: JsonValue = msgspec.json.decode(answer)
        return value
    except UNREADABLE as error:
        cause = error
    # Raised outside of the handler and without the answer: a traceback shows local variables.
    answer = b""
    refusal = ConverseError(detail=f"{who} with invalid JSON.", stage=Stage.DECODE)
    refusal.__cause__ = cause
    del cause
    raise clean(refusal) from refusal.__cause__


def _scrub_json(value: JsonValue, scrubber: Scrubber) -> JsonValue:
    match value:
        case str():
            return scrubber.scrub_text(value)
        case list():
            return [_scrub_json(each, scrubber) for each in value]
        case dict():
            return {
                scrubber.scrub_text(name): _scrub_json(each, scrubber)
                for name, each in value.items()
            }
        case _:
            return value


def _clean(error: ConverseError, scrubber: Scrubber, depth: int) -> None:
    for name, value in access_facts(error).items():
        cleaned = _clean_value(value, scrubber)
        if cleaned is not value:
            setattr(error, name, cleaned)
    cause, context = error.__cause__, error.__context__
    if cause is not None:
        error.__cause__ = _clean_cause(cause, scrubber, depth)
    if context is not None:
        # If cause and context are one error, keep only the cause, so that it is not cleaned twice.
        error.__context__ = None if context is cause else _clean_cause(context, scrubber, depth)


def _clean_cause(cause: BaseException, scrubber: Scrubber, depth: int) -> BaseException | None:
    if depth == 0:  # too deep: drop the error rather than show it unchecked
        return None
    if isinstance(cause, ConverseError):
        _clean(cause, scrubber, depth - 1)
        return cause.with_traceback(None)
    # Foreign errors may store texts anywhere, so they cannot be sanitized.
    if any(scrubber.scrub_text(text) != text for text in _list_texts(cause)):
        return ForeignError(type=type(cause).__name__, detail="its text has a secret")
    for name in ("__cause__", "__context__"):
        if (chained := getattr(cause, name)) is not None:
            setattr(cause, name, _clean_cause(chained, scrubber, depth - 1))
    return cause.with_traceback(None)


def _list_texts(cause: BaseException) -> Iterator[str]:
    """Yield the text of a foreign error, and the texts in its data."""
    yield f"{cause} {cause!r}"
    for name in ("args", "__dict__", *_DATA_ATTRIBUTES):
        yield repr(getattr(cause, name, None))


def _clean_value(value: Any, scrubber: Scrubber) -> Any:
    if isinstance(value, tuple):
        cleaned = tuple(_clean_value(each, scrubber) for each in value)
        return value if cleaned == value else cleaned
    # Enumerations are strings, too; sanitizing would turn them into plain strings.
    if not isinstance(value, str) or isinstance(value, enum.Enum):
        return value
    text = " ".join(scrubber.scrub_text(value).split())
    if not text.isprintable():  # control characters could affect a terminal
        text = "".join(character if character.isprintable() else "?" for character in text)
    if len(text) > LONGEST_CHARACTERS:
        text = f"{text[:LONGEST_CHARACTERS]}…"
    return value if text == value else text
