"""The texts of messages: rewrite each text of a canister or a content."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.guards.active import ChangeText
from vibe_llms.messages.canisters import (
    AnyCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    Citation,
    FileContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.field_types import evolve_unchecked

_T = TypeVar("_T")

_LONG_NUMBER: Final = 10_000_000
"""Smallest number of JSON that is examined: shorter ones identify no person and no account."""

_LONGEST_NUMBER: Final = 1e40
"""No number with a fraction or an exponent is examined from here on: no account is as long."""

_BYTE_ORDER_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def rewrite_canister(canister: AnyCanister, path: str, change: ChangeText) -> AnyCanister:
    """Return a canister with its texts changed; the same one if none is.

    A changed canister loses its vendor's data, which may repeat the text.
    """
    changes: dict[str, Any] = {}
    content = tuple(
        rewrite_content(each, f"{path}.content[{index}]", change)
        for index, each in enumerate(canister.content)
    )
    if any(new is not old for new, old in zip(content, canister.content, strict=True)):
        changes["content"] = content
    match canister:
        case InvocationCanister():
            _note(
                changes, "arguments", canister.arguments, rewrite_arguments(canister, path, change)
            )
        case DocumentCanister() if canister.title:
            _note(changes, "title", canister.title, change(f"{path}.title", canister.title))
        case _:
            pass
    return evolve_unchecked(canister, **changes, native=None) if changes else canister


def rewrite_content(content: AnyContent, path: str, change: ChangeText) -> AnyContent:
    """Return a content with its texts changed; the same one if none is.

    A changed content loses its vendor's data, and reasoning its signature, which would not match.
    """
    changes: dict[str, Any] = {}
    match content:
        case TextualContent():
            _note(changes, "text", content.text, change(f"{path}.text", content.text))
            citations = _rewrite_citations(content.citations, path, change)
            _note(changes, "citations", content.citations, citations)
            if "text" in changes:  # the spans of the citations have moved
                changes["citations"] = tuple(map(forget_span, citations))
        case RefusalContent():
            _note(changes, "text", content.text, change(f"{path}.text", content.text))
        case ReasoningContent():
            _note(changes, "text", content.text, change(f"{path}.text", content.text))
            summary = tuple(
                change(f"{path}.summary[{index}]", each)
                for index, each in enumerate(content.summary)
            )
            _note(changes, "summary", content.summary, summary)
            if changes:
                changes["signature"] = None
        case NativeContent():
            _note(changes, "text", content.text, change(f"{path}.text", content.text))
            data = rewrite_json(content.native.data, f"{path}.native", change)
            if data != content.native.data:
                native = evolve_unchecked(content.native, data=data)
                return evolve_unchecked(content, **changes, native=native)
        case AudioContent() if content.transcript:
            transcript = change(f"{path}.transcript", content.transcript)
            _note(changes, "transcript", content.transcript, transcript)
        case FileContent():
            changes = _rewrite_file(content, path, change)
        case _:
            return content
    return evolve_unchecked(content, **changes, native=None) if changes else content


def _note(changes: dict[str, Any], name: str, old: object, new: object) -> None:
    if new != old:
        changes[name] = new


def _rewrite_citations(
    citations: tuple[Citation, ...], path: str, change: ChangeText
) -> tuple[Citation, ...]:
    return tuple(
        rewrite_citation(each, f"{path}.citations[{index}]", change)
        for index, each in enumerate(citations)
    )


def rewrite_citation(citation: Citation, path: str, change: ChangeText) -> Citation:
    """Return a citation with its cited text and title changed; the same one if neither is."""
    changes: dict[str, Any] = {}
    for name in ("cited_text", "title"):
        if text := getattr(citation, name):
            _note(changes, name, text, change(f"{path}.{name}", text))
    return evolve_unchecked(citation, **changes, native=None) if changes else citation


def forget_span(citation: Citation) -> Citation:
    """Return a citation without its span, for a text whose length has changed."""
    return evolve_unchecked(citation, start=None, end=None, native=None)


def _rewrite_file(content: FileContent, path: str, change: ChangeText) -> dict[str, Any]:
    """Return the changed fields of a file: its texts, and its data if they are text."""
    changes: dict[str, Any] = {}
    for name in ("name", "title", "context"):
        if text := getattr(content, name):
            _note(changes, name, text, change(f"{path}.{name}", text))
    encoding = _detect_encoding(content)
    if content.data and encoding:
        text = content.data.decode(encoding, "replace")
        new = change(f"{path}.data", text)
        if new != text:
            data = new.encode(encoding)
            changed = FileContent(data=data, mime_type=content.mime_type)
            changes |= {"data": data, "content_id": changed.content_id, "file_id": None}
            changes["url"] = None
    return changes


def _detect_encoding(content: FileContent) -> str | None:
    """Return the encoding of a file if its data are text, whatever its type says."""
    data = content.data or b""
    if data.startswith(_BYTE_ORDER_MARKS) and not len(data) % 2:
        return "utf-16"
    if b"\0" not in data:
        try:
            data.decode()
        except UnicodeDecodeError:
            pass
        else:
            return "utf-8"
    return "utf-8" if content.mime_type.lower().startswith("text/") else None


def rewrite_arguments(canister: InvocationCanister, path: str, change: ChangeText) -> str:
    """Return the arguments of a call with their texts changed; JSON stays JSON."""
    path = f"{path}.arguments"
    if canister.form == "text":
        return change(path, canister.arguments)
    return rewrite_json(canister.arguments, path, change)


def rewrite_json(data: str, path: str, change: ChangeText) -> str:
    """Return JSON with its texts changed; the same text if none is, or if it is not JSON.

    Of values with the same key, only the last one is examined and kept.
    """
    if not data.strip():
        return data
    try:
        value = msgspec.json.decode(data)
        new = rewrite_value(value, path, change)
        is_same = new is value and not _has_repeated_keys(data)
    except UNREADABLE:
        return change(path, data)
    return data if is_same else msgspec.json.encode(new).decode()


def _has_repeated_keys(data: str) -> bool:
    """Return whether an object in JSON has a key more than once."""
    is_found = False

    def compare(pairs: list[tuple[str, Any]]) -> None:
        nonlocal is_found
        is_found = is_found or len(dict(pairs)) < len(pairs)

    json.loads(data, object_pairs_hook=compare, parse_int=str)
    return is_found


def rewrite_value(value: Any, path: str, change: ChangeText) -> Any:
    """Return a JSON value with its texts, keys and long numbers changed; the same if none is."""
    match value:
        case str():
            new = change(path, value)
            return value if new == value else new
        case bool() | None:
            return value
        case int():
            return _rewrite_number(value, value, path, change)
        case float() if value.is_integer() and abs(value) < _LONGEST_NUMBER:
            return _rewrite_number(value, int(value), path, change)
        case list():
            return _keep(value, [rewrite_value(each, path, change) for each in value])
        case dict():
            return _rewrite_object(value, path, change)
        case _:
            return value


def _rewrite_number(value: float, number: int, path: str, change: ChangeText) -> Any:
    if abs(number) < _LONG_NUMBER:
        return value
    digits = str(number)
    new = change(path, digits)
    return value if new == digits else new


def _rewrite_object(value: dict[str, Any], path: str, change: ChangeText) -> dict[str, Any]:
    new: dict[str, Any] = {}
    counts: dict[str, int] = {}
    is_same = True
    for key, each in value.items():
        new_key = _number(change(path, key), new, counts)
        new_each = rewrite_value(each, path, change)  # the key may be a secret
        new[new_key] = new_each
        is_same = is_same and new_key == key and new_each is each
    return value if is_same else new


def _number(key: str, new: Mapping[str, Any], counts: dict[str, int]) -> str:
    """Return a key that an object does not have: two may have become the same mark."""
    numbered = key
    while numbered in new:
        counts[key] = counts.get(key, 1) + 1
        numbered = f"{key} ({counts[key]})"
    return numbered


def _keep(old: list[Any], new: list[Any]) -> list[Any]:
    return old if all(a is b for a, b in zip(new, old, strict=True)) else new


def rewrite_item(item: Any, path: str, change: ChangeText) -> Any:
    """Return a finished item of a stream with its texts changed: a content, a call or a result."""
    if isinstance(item, InvocationCanister | ResultCanister):
        return rewrite_canister(item, path, change)
    return rewrite_content(item, path, change)


def join_texts(item: Any) -> str:
    """Return all texts of an item, joined."""
    texts: list[str] = []

    def collect(path: str, text: str) -> str:
        texts.append(text)
        return text

    rewrite_item(item, "", collect)
    return "".join(texts)


def rewrite_all(
    values: tuple[_T, ...],
    path: str,
    rewrite: Callable[[_T, str, ChangeText], _T],
    change: ChangeText,
) -> tuple[_T, ...]:
    """Rewrite each value of a tuple; return the same tuple if none changes."""
    new = tuple(rewrite(each, f"{path}[{index}]", change) for index, each in enumerate(values))
    return values if all(a is b for a, b in zip(new, values, strict=True)) else new
