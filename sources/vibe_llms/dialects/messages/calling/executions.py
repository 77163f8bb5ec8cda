"""Calls that the vendor executed itself, and their results: as readable text, and unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import make_native, write_json
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.server_results import make_source, read_pages
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import AnyContent, FileContent, TextualContent

_READABLE_FIELDS: Final = (
    "title",
    "url",
    "text",
    "stdout",
    "stderr",
    "tool_references",
    "tool_name",
    "content",
    "source",
    "data",
    "error_code",
    "error_message",
)
"""The readable fields of a result, in order of preference."""


_NAMES: Final = {
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
}
"""Common names of the vendor's tools whose names differ."""


def read_name(block: Mapping[str, Any]) -> str:
    """Return the common name of the tool that is called."""
    name = str(block["name"])
    return _NAMES.get(name, name)


def is_invocation(block: Mapping[str, Any]) -> bool:
    """Return whether a block is a call by the vendor, such as ``server_tool_use``."""
    kind = str(block.get("type"))
    has_names = isinstance(block.get("id"), str) and isinstance(block.get("name"), str)
    return kind.endswith("_tool_use") and has_names


def is_result(block: Mapping[str, Any]) -> bool:
    """Return whether a block is the result of such a call, such as ``web_search_tool_result``."""
    kind = str(block.get("type"))
    return kind.endswith("_tool_result") and isinstance(block.get("tool_use_id"), str)


def normalize_invocation(block: Mapping[str, Any]) -> InvocationCanister:
    """Return the call, with the whole block as native data."""
    return InvocationCanister(
        invocation_id=block["id"],
        name=read_name(block),
        arguments=write_arguments(block.get("input")),
        owner=Owner.VENDOR,
        native=make_native(PROTOCOL, block),
    )


def normalize_result(block: Mapping[str, Any], names: Mapping[str, str]) -> ResultCanister:
    """Return the result of a call: its readable text, and the whole block as native data.

    Args:
        names: Names of the tools, by the ids of their calls.
    """
    content = block.get("content")
    kind = str(content.get("type")) if isinstance(content, Mapping) else ""
    return_code = content.get("return_code") if isinstance(content, Mapping) else None
    return ResultCanister(
        _read_contents(content),
        invocation_id=block["tool_use_id"],
        name=names.get(block["tool_use_id"]),
        is_error=block.get("is_error") is True or kind.endswith("_error") or bool(return_code),
        owner=Owner.VENDOR,
        native=make_native(PROTOCOL, block),
    )


def _read_contents(content: Any) -> list[AnyContent]:
    match content:
        case [{"type": "web_search_result"}, *_]:
            return [*read_pages(content)]
        case {"type": "web_fetch_result", "url": str(url), "content": Mapping() as document}:
            title, text = read_text(document.get("title")), "\n".join(_read_texts(document))
            text = text.removeprefix(title or "").lstrip("\n")
            return [make_source(title=title, url=url, text=text)]
    text = "\n".join(_read_texts(content))
    contents: list[AnyContent] = [TextualContent(text)] if text else []
    match content:
        case {"return_code": _, "content": [*outputs]}:
            contents += [
                FileContent(file_id=each["file_id"], native=make_native(PROTOCOL, {}))
                for each in outputs
                if isinstance(each, Mapping) and isinstance(each.get("file_id"), str)
            ]
    return contents


def write_arguments(value: Any) -> str:
    """Return the arguments of a call as text."""
    return "{}" if value is None else write_json(value)


def _read_texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            if value:
                yield value
        case list():
            for item in value:
                yield from _read_texts(item)
        case {"type": "base64"}:  # bytes are not readable
            return
        case Mapping():
            for name in _READABLE_FIELDS:
                if name in value:
                    yield from _read_texts(value[name])
