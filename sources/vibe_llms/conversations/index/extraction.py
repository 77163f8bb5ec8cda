"""Extract the indexed text and metadata from stored lines.

Lines are parsed as plain JSON, and unexpected parts are skipped: an index must not fail, and
verifying files is the task of the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from vibe_llms.conversations.index.tokenization import clean_text, prepare_text

FIRST_WORDS_LENGTH = 120
_TEXT_FIELDS = ("text", "transcript", "title", "context", "name")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAXIMUM_INTEGER = (1 << 63) - 1
_decode = json.JSONDecoder().raw_decode


class CanisterEntry(NamedTuple):
    """Indexed parts of a canister."""

    id: str
    role: str
    timestamp: int
    text: str
    model: str | None


class Description(NamedTuple):
    """Indexed parts of a conversation's metadata."""

    name: str | None
    created: int
    model: str | None
    tags: str
    merged_bytes: int
    parent: str | None
    parent_canisters: int | None
    parent_bytes: int | None


def read_record(line: bytes) -> dict[str, object] | None:
    """Parse a stored line; return ``None`` if it is not a JSON object."""
    try:
        # Without `json.loads`, which looks for the encoding and for spaces.
        text = line.decode("utf-8", "surrogatepass").strip()
        record, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and end == len(text) else None


def read_entry(line: bytes) -> CanisterEntry | None:
    """Read the canister of a stored line; return ``None`` if it is not a JSON object."""
    record = read_record(line)
    if record is None:
        return None
    return CanisterEntry(
        id=_text(record.get("id")),
        role=_text(record.get("role")),
        timestamp=read_moment(record.get("timestamp")),
        text=prepare_text("\n".join(survey_texts(record))),
        model=compose_model(record.get("origin")),
    )


def survey_texts(record: dict[str, object]) -> Iterator[str]:
    """Yield all texts of a canister, in reading order."""
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
        if isinstance(summary, list):
            yield from filter(None, map(_text, summary))
        for field in _TEXT_FIELDS:
            if field in content and (text := _text(content[field])):
                yield text


def _unescape(arguments: str) -> str:
    """Decode characters of arguments that a model has written as ``\\u…``."""
    if "\\u" not in arguments:
        return arguments
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):  # a model may write invalid or deeply nested JSON
        return arguments


def compose_model(origin: object) -> str | None:
    """Return the address of the model that a canister comes from."""
    if not isinstance(origin, dict):
        return None
    provider, model = _text(origin.get("provider")), _text(origin.get("model"))
    return f"{provider}:{model}" if provider and model else None


def compose_first_words(texts: Iterable[str]) -> str:
    """Return the beginning of some texts, on one line."""
    # Truncate first: a text may be as long as a book.
    beginning = ""
    for text in texts:
        beginning += f"{text[: 4 * FIRST_WORDS_LENGTH]}\n"
        if len(beginning) > 4 * FIRST_WORDS_LENGTH:
            break
    words = _join_words(beginning[: 2 * FIRST_WORDS_LENGTH])
    if len(words) <= FIRST_WORDS_LENGTH < len(beginning):  # many spaces
        words = _join_words(beginning)
    return words[:FIRST_WORDS_LENGTH]


def _join_words(text: str) -> str:
    words = " ".join(text.split())
    if words.isascii() and words.isprintable():  # as most texts, and to clean one takes long
        return words
    return " ".join(clean_text(text).split())


def read_description(data: bytes) -> Description:
    """Read the metadata of a conversation; missing or damaged values are empty."""
    import tomli

    try:
        document: dict[str, object] = tomli.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        document = {}
    table, parent = _table(document.get("conversation")), _table(document.get("parent"))
    tags = table.get("tags")
    return Description(
        name=_text(table.get("name")) or None,
        created=read_moment(table.get("created")),
        model=_text(table.get("model")) or None,
        tags=_write_tags(tags) if isinstance(tags, list) else "",
        merged_bytes=_number(table.get("merged_bytes")) or 0,
        parent=_text(parent.get("id")) or None,
        parent_canisters=_number(parent.get("canisters")),
        parent_bytes=_number(parent.get("bytes")),
    )


def _write_tags(tags: list[object]) -> str:
    """Format tags with any characters; empty for none."""
    texts = list(filter(None, map(_text, tags)))
    return json.dumps(texts) if texts else ""


def read_moment(moment: object) -> int:
    """Return a time in nanoseconds since 1970; 0 for an invalid one.

    SQLite's integers cover 1677 to 2262; other times are clamped.
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return 0
    if not isinstance(moment, datetime):
        return 0
    # A handwritten time may lack a time zone, and could not be subtracted.
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    age = moment - _EPOCH
    moment_ns = ((age.days * 86_400 + age.seconds) * 1_000_000 + age.microseconds) * 1_000
    return max(-_MAXIMUM_INTEGER, min(_MAXIMUM_INTEGER, moment_ns))


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    """Return a text that SQLite can store; JSON may contain lone surrogates."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= _MAXIMUM_INTEGER else None
