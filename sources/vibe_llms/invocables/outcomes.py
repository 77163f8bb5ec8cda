"""Outcomes of calls: a function's return value as contents for the model."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, Final, cast

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue, escape_surrogates
from vibe_llms.messages.contents import (
    CONTENT_CLASSES,
    MEDIA_CLASSES,
    AnyContent,
    TextualContent,
    ensure_contents,
)
from vibe_llms.messages.trusting import trusted

_make_text: Final = trusted(TextualContent)
_CONTENTS: Final = tuple(CONTENT_CLASSES.values())
CONTENTS_LIMIT: Final = 1_000
"""Maximum number of contents of one outcome."""

_ITEMS_LIMIT: Final = 1_000_000


@frozen(kw_only=True)
class Outcome:
    """Outcome of a call.

    Attributes:
        contents: The contents for the model; the constructor also accepts a text or one content.
        is_error: True if the contents report a failure.
        structured: The result as plain data, for programs; ``None`` if there is none.
        meta: Further data for programs: MCP's ``_meta``.
        source: The object from which the outcome was made, for consumers that use the protocol of
            the object. Models do not see this object, and it is removed if any content is cut.
    """

    contents: tuple[AnyContent, ...] = attrs.field(default=(), converter=ensure_contents)
    is_error: bool = False
    structured: JsonValue = None
    meta: JsonObject = attrs.field(factory=dict)
    source: object = attrs.field(default=None, eq=False, repr=False)

    @property
    def text(self) -> str:
        """The texts of all contents, joined."""
        return "".join(item.text for item in self.contents if isinstance(item, TextualContent))


def fail(text: str) -> Outcome:
    """Create the outcome of a failed call, in words for the model."""
    return Outcome(contents=escape_surrogates(text), is_error=True)


def produce_outcome(value: Any) -> Outcome:
    """Create an outcome from a function's return value.

    Text stays text; contents stay contents; ``None`` is empty; other values are written as JSON:
    plain data, dates, paths, enumerations, attrs, dataclass and pydantic objects. Lone surrogates,
    as in names of files, are written as escapes: ``\\udce9``.

    Raises:
        TypeError: The value cannot be converted.
    """
    match value:
        case Outcome():
            return value
        case None:
            return Outcome()
        case str():
            text = escape_surrogates(value)
            return Outcome(contents=(_make_text(text=text),)) if text else Outcome()
        case _ if isinstance(value, _CONTENTS):
            return Outcome(contents=value)
        case list() | tuple() if any(isinstance(item, _CONTENTS) for item in value):
            items = [escape_surrogates(each) if isinstance(each, str) else each for each in value]
            return Outcome(contents=items)
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError("it is a generator; return a list or a text instead")
    return Outcome(contents=_write_json(value))


def produce_structure(value: Any) -> JsonValue:
    """Create plain data from a value that :func:`produce_outcome` accepts.

    Raises:
        TypeError: The value cannot be converted.
    """
    import json

    return cast(JsonValue, json.loads(_write_json(value)))


def _write_json(value: Any) -> str:
    import msgspec  # not needed for a function that returns text

    try:
        return msgspec.json.encode(value, enc_hook=_simplify).decode("utf-8")
    # Lone surrogates are rare, so that all texts are searched only after this error.
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_simplify, str_keys=True)
        return msgspec.json.encode(_escape(plain)).decode("utf-8")


def _escape(value: Any) -> Any:
    """Escape lone surrogates in all texts of plain data."""
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, dict):
        return {_escape(key): _escape(each) for key, each in value.items()}
    return [_escape(each) for each in value] if isinstance(value, list) else value


def _simplify(value: Any) -> Any:
    """Convert types that msgspec does not support."""
    if isinstance(value, PurePath):
        return str(value)
    # Looked up on the class, because some objects, such as mocks, seem to have any attribute.
    dump = getattr(type(value), "model_dump", None)
    if dump is not None:
        return dump(value, mode="json")
    if isinstance(value, Iterable):
        items = list(itertools.islice(value, _ITEMS_LIMIT))
        if len(items) < _ITEMS_LIMIT:
            return items
        raise TypeError(f"a {type(value).__name__} yields more than {_ITEMS_LIMIT} items")
    raise TypeError(f"a value of type {type(value).__name__} is not text, content or plain data")


def limit_outcome(outcome: Outcome, characters: int, size_bytes: int) -> Outcome:
    """Cut the contents for the model to the limits, and add notes about the cuts.

    Args:
        characters: Maximum characters of all texts together, including the notes.
        size_bytes: Maximum bytes of all media together.
    """
    outcome = _limit_structure(outcome, characters)
    contents = outcome.contents
    total = sum(len(item.text) for item in contents if isinstance(item, TextualContent))
    media = sum(len(item.data or b"") for item in contents if isinstance(item, MEDIA_CLASSES))
    if total <= characters and media <= size_bytes and len(contents) <= CONTENTS_LIMIT:
        return outcome
    if media > size_bytes:
        contents = _withhold_media(contents, size_bytes)
    contents = _limit_texts(_limit_count(contents), characters)
    return attrs.evolve(outcome, contents=contents, structured=None, source=None)


def _limit_structure(outcome: Outcome, characters: int) -> Outcome:
    """Remove structured data and ``meta`` if they exceed the limit of texts."""
    # With a source, the structured data belong to a foreign result and repeat its texts.
    if outcome.source is not None or (outcome.structured is None and not outcome.meta):
        return outcome
    size = len(_write_json([outcome.structured, outcome.meta]))
    if size <= characters:
        return outcome
    note = f"[structured content of {size} characters left out: the limit is {characters}]"
    contents = (*outcome.contents, TextualContent(note))
    return Outcome(contents=contents, is_error=outcome.is_error)


def _withhold_media(contents: tuple[AnyContent, ...], size_bytes: int) -> tuple[AnyContent, ...]:
    limited: list[AnyContent] = []
    remaining = size_bytes
    for item in contents:
        size = len(item.data or b"") if isinstance(item, MEDIA_CLASSES) else 0
        if size > remaining:
            note = f"[{item.type} of {size} bytes left out: the limit is {size_bytes} bytes]"
            limited.append(TextualContent(note))
        else:
            remaining -= size
            limited.append(item)
    return tuple(limited)


def _limit_count(contents: tuple[AnyContent, ...]) -> tuple[AnyContent, ...]:
    if len(contents) <= CONTENTS_LIMIT:
        return contents
    surplus = len(contents) - CONTENTS_LIMIT + 1
    return (*contents[: CONTENTS_LIMIT - 1], TextualContent(f"[{surplus} more contents left out]"))


def _limit_texts(contents: tuple[AnyContent, ...], characters: int) -> tuple[AnyContent, ...]:
    """Keep the beginning of the texts; the note about the rest counts as text, too."""
    total = sum(len(item.text) for item in contents if isinstance(item, TextualContent))
    if total <= characters:
        return contents
    # The note about the largest possible cut is at least as long as the actual note.
    room = max(0, characters - len(_compose_note(total, total, characters)))
    limited: list[AnyContent] = []
    remaining = room
    for item in contents:
        if not isinstance(item, TextualContent):
            limited.append(item)
        elif remaining > 0:
            fits = len(item.text) <= remaining
            limited.append(item if fits else TextualContent(item.text[:remaining]))
            remaining -= min(remaining, len(item.text))
    note = _compose_note(total - room, total, characters)[:characters]
    return (*limited, TextualContent(note)) if note else tuple(limited)


def _compose_note(cut: int, total: int, limit: int) -> str:
    return f"\n[cut: {cut} of {total} characters; the limit is {limit}]"
