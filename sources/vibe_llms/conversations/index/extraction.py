"""What the index keeps of a stored conversation: read from its lines, not from its objects.

Stored lines are read as plain JSON, and what has an unexpected shape is left out rather than
complained about: proving the files is the store's business, and an index must not fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from vibe_llms.conversations.index.words import prepare_text

FIRST_WORDS_LENGTH = 120
_WORDS = ("text", "transcript", "title", "context", "name")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_HUGE = (1 << 63) - 1


class CanisterEntry(NamedTuple):
    """What is kept of one canister."""

    id: str
    role: str
    timestamp: int
    text: str
    model: str | None


class Description(NamedTuple):
    """What is kept of a conversation's metadata."""

    name: str | None
    created: int
    model: str | None
    tags: str
    merged_bytes: int
    parent: str | None
    parent_canisters: int | None
    parent_bytes: int | None


def read_place(line: bytes) -> CanisterEntry | None:
    """Reads one stored line; ``None`` where it holds no canister."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    return CanisterEntry(
        id=_text(record.get("id")),
        role=_text(record.get("role")),
        timestamp=read_moment(record.get("timestamp")),
        text=prepare_text("\n".join(_survey_texts(record))),
        model=_compose_model(record.get("origin")),
    )


def _survey_texts(record: dict[str, object]) -> Iterator[str]:
    """Yields all words of a canister, in the order in which a reader would meet them."""
    for field in ("title", "name"):
        if text := _text(record.get(field)):
            yield text
    if arguments := _text(record.get("arguments")):
        yield _unescape(arguments)
    contents = record.get("content")
    for content in contents if isinstance(contents, list) else ():
        if not isinstance(content, dict):
            continue
        summary = content.get("summary")
        yield from filter(None, map(_text, summary if isinstance(summary, list) else ()))
        for field in _WORDS:
            if text := _text(content.get(field)):
                yield text


def _unescape(arguments: str) -> str:
    """Shows the letters of arguments in which a model has written them as ``\\u…``."""
    if "\\u" not in arguments:
        return arguments
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):  # a model may nest them as deeply as it likes
        return arguments


def _compose_model(origin: object) -> str | None:
    if not isinstance(origin, dict):
        return None
    provider, model = _text(origin.get("provider")), _text(origin.get("model"))
    return f"{provider}:{model}" if provider and model else None


def compose_first_words(text: str) -> str:
    """Returns the beginning of a prepared text, on one line."""
    # Cut first: a text may be as long as a book, of which the beginning is enough.
    return " ".join(text[: 4 * FIRST_WORDS_LENGTH].split())[:FIRST_WORDS_LENGTH]


def read_description(data: bytes) -> Description:
    """Reads the metadata of a conversation; what is missing or damaged there is empty."""
    import tomli

    try:
        document: dict[str, object] = tomli.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        document = {}
    about, parent = _table(document.get("conversation")), _table(document.get("parent"))
    tags = about.get("tags")
    return Description(
        name=_text(about.get("name")) or None,
        created=read_moment(about.get("created")),
        model=_text(about.get("model")) or None,
        tags=_write_tags(tags) if isinstance(tags, list) else "",
        merged_bytes=_number(about.get("merged_bytes")) or 0,
        parent=_text(parent.get("id")) or None,
        parent_canisters=_number(parent.get("canisters")),
        parent_bytes=_number(parent.get("bytes")),
    )


def _write_tags(tags: list[object]) -> str:
    """Writes tags, whatever is in them; empty for none."""
    texts = list(filter(None, map(_text, tags)))
    return json.dumps(texts) if texts else ""


def read_moment(moment: object) -> int:
    """Returns a moment in nanoseconds since 1970; what is none counts as the beginning.

    SQLite's integers reach from 1677 to 2262; what lies beyond is brought to that edge.
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return 0
    if not isinstance(moment, datetime):
        return 0
    # A person may have written one without its zone, and it could not be subtracted.
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(-_HUGE, min(_HUGE, (moment - _EPOCH) // _MICROSECOND * 1000))


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    """Returns a text that SQLite can hold; JSON's may contain half a character."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= _HUGE else None
