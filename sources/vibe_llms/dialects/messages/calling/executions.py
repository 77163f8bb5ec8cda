"""What the vendor executed itself: its invocations and their results, readable and whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import make_native, write_json
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import TextualContent

_TOLD: Final = (
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
"""What of a result a reader can read, in the order in which it is told."""


def is_invocation(block: Mapping[str, Any]) -> bool:
    """Tells whether a block is a call that the vendor made: ``server_tool_use`` and its like."""
    kind = str(block.get("type"))
    named = isinstance(block.get("id"), str) and isinstance(block.get("name"), str)
    return kind.endswith("_tool_use") and named


def is_result(block: Mapping[str, Any]) -> bool:
    """Tells whether a block is what came of such a call: ``web_search_tool_result`` and so on."""
    kind = str(block.get("type"))
    return kind.endswith("_tool_result") and isinstance(block.get("tool_use_id"), str)


def normalize_invocation(block: Mapping[str, Any]) -> InvocationCanister:
    """Returns the call, with the whole block beside it."""
    return InvocationCanister(
        invocation_id=block["id"],
        name=block["name"],
        arguments=write_arguments(block.get("input")),
        owner=Owner.VENDOR,
        native=make_native(PROTOCOL, block),
    )


def normalize_result(block: Mapping[str, Any], names: Mapping[str, str]) -> ResultCanister:
    """Returns what came of a call, in text as far as it can be read, with the whole block.

    Args:
        names: Of the tools, by the ids of their calls.
    """
    text = "\n".join(_tell(block.get("content")))
    content = block.get("content")
    kind = str(content.get("type")) if isinstance(content, Mapping) else ""
    return ResultCanister(
        (TextualContent(text),) if text else (),
        invocation_id=block["tool_use_id"],
        name=names.get(block["tool_use_id"]),
        is_error=block.get("is_error") is True or kind.endswith("_error"),
        owner=Owner.VENDOR,
        native=make_native(PROTOCOL, block),
    )


def write_arguments(value: Any) -> str:
    """Returns the arguments of a call as text."""
    return "{}" if value is None else write_json(value)


def _tell(value: Any) -> Iterator[str]:
    match value:
        case str():
            if value:
                yield value
        case list():
            for item in value:
                yield from _tell(item)
        case {"type": "base64"}:  # nobody reads bytes
            return
        case Mapping():
            for name in _TOLD:
                if name in value:
                    yield from _tell(value[name])
