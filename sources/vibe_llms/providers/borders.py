"""What may be kept of what came from outside: of an error one line, bounded, and no secrets.

A vendor's words go into our errors, and a vendor, or whoever stands in between, may send back
what it was sent. So every error of an exchange passes here once, on its way up.
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
"""How much of one text of an error is shown: more than any vendor says to people."""

_DEPTH: Final = 8
_HELD: Final = ("doc", "object", "body", "response")
"""Where errors of other people's hold what they could not read."""


def clean_error(error: ConverseError, secrets: Iterable[Secret]) -> ConverseError:
    """Strikes secrets out of an error and its causes, and puts each of its texts on one line.

    What stood on the stack below goes too, for a traceback may show what was in variables there.

    Args:
        secrets: What was sent and may not be shown; what looks like a key goes anyway.

    Returns:
        The same error.
    """
    _clean(error, Scrubber(secrets), _DEPTH)
    return error.with_traceback(None)


@define
class EventCleaner:
    """Strikes secrets out of events that nobody has understood, in whichever of their texts.

    Attributes:
        list_secrets: What was sent and may not be shown; asked when the first event comes.
    """

    list_secrets: Callable[[], Iterable[Secret]]
    _scrubber: Scrubber | None = attrs.field(default=None, init=False)

    def clean(self, event: NativeEvent) -> NativeEvent:
        """Returns the event without secrets."""
        if self._scrubber is None:  # to make one takes a millisecond
            self._scrubber = Scrubber(self.list_secrets())
        scrubber, said = self._scrubber, event.kind + event.native.data
        if scrubber.scrub_text(said) == said:
            return event
        data = json.dumps(_scrub_json(json.loads(event.native.data), scrubber), ensure_ascii=False)
        native = attrs.evolve(event.native, data=data)
        return attrs.evolve(event, kind=scrubber.scrub_text(event.kind), native=native)


def decode_answer(
    answer: bytes, who: str, clean: Callable[[ConverseError], ConverseError]
) -> JsonValue:
    """Reads an answer that should be JSON.

    Args:
        who: Answered what, for the error.
        clean: Makes the error fit to be shown.

    Raises:
        ConverseError: It is none.
    """
    try:
        value: JsonValue = msgspec.json.decode(answer)
        return value
    except UNREADABLE as error:
        cause = error
    answer = b""  # a traceback shows variables, and what is raised above, what was handled
    refusal = ConverseError(detail=f"{who} with what is no JSON.", stage=Stage.DECODE)
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
        # The same error would be cleaned twice, and is shown as the cause alone.
        error.__context__ = None if context is cause else _clean_cause(context, scrubber, depth)


def _clean_cause(cause: BaseException, scrubber: Scrubber, depth: int) -> BaseException | None:
    if depth == 0:  # dropped rather than shown unread
        return None
    if isinstance(cause, ConverseError):
        _clean(cause, scrubber, depth - 1)
        return cause.with_traceback(None)
    # Where foreign errors keep their words nobody knows, so that nothing in them can be struck out.
    if any(scrubber.scrub_text(text) != text for text in _list_texts(cause)):
        return ForeignError(type=type(cause).__name__, detail="what it says holds a secret")
    for name in ("__cause__", "__context__"):
        if (further := getattr(cause, name)) is not None:
            setattr(cause, name, _clean_cause(further, scrubber, depth - 1))
    return cause.with_traceback(None)


def _list_texts(cause: BaseException) -> Iterator[str]:
    """Yields what a foreign error says, and what it holds of that which it is about."""
    yield f"{cause} {cause!r}"
    for name in ("args", "__dict__", *_HELD):
        yield repr(getattr(cause, name, None))


def _clean_value(value: Any, scrubber: Scrubber) -> Any:
    if isinstance(value, tuple):
        cleaned = tuple(_clean_value(each, scrubber) for each in value)
        return value if cleaned == value else cleaned
    # Words of ours are enumerations and texts in one: cleaned, they would be texts alone.
    if not isinstance(value, str) or isinstance(value, enum.Enum):
        return value
    text = " ".join(scrubber.scrub_text(value).split())
    if not text.isprintable():  # nothing that a terminal would obey
        text = "".join(character if character.isprintable() else "?" for character in text)
    if len(text) > LONGEST_CHARACTERS:
        text = f"{text[:LONGEST_CHARACTERS]}…"
    return value if text == value else text
