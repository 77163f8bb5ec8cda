"""Calls that the service executed itself, and their results: as readable text, and unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.extras import make_native, write_json
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import Native, TextualContent


def is_execution(call: Mapping[str, Any]) -> bool:
    """Return whether the service executes a call itself."""
    return call.get("type") is not None


_NAMES: Final = {"nova_code_interpreter": "code_execution", "nova_grounding": "web_search"}
"""Common names of the tools that the service executes."""


def read_name(call: Mapping[str, Any]) -> str:
    """Return the name of the tool that is called; a server tool has its common name."""
    name = str(call["name"])
    return _NAMES.get(name, name) if is_execution(call) else name


def normalize_invocation(block: Mapping[str, Any]) -> InvocationCanister:
    """Return the call, with the whole block as native data."""
    call = block["toolUse"]
    return InvocationCanister(
        invocation_id=call["toolUseId"],
        name=read_name(call),
        arguments=write_arguments(call.get("input")),
        owner=Owner.VENDOR,
        native=keep_execution(block),
    )


def normalize_result(block: Mapping[str, Any], names: Mapping[str, str]) -> ResultCanister:
    """Return the result of a call: its readable text, and the whole block as native data.

    Args:
        names: Names of the tools, by the ids of their calls.
    """
    result = block["toolResult"]
    texts = []
    for part in result.get("content") or ():
        match part:
            case {"text": str(text)}:
                texts.append(text)
            case {"json": value}:
                texts.append(write_json(value))
    text = "\n".join(texts)
    return ResultCanister(
        (TextualContent(text),) if text else (),
        invocation_id=result["toolUseId"],
        name=names.get(result["toolUseId"]),
        is_error=result.get("status") == "error",
        owner=Owner.VENDOR,
        native=keep_execution(block),
    )


def keep_execution(block: Mapping[str, Any]) -> Native:
    """Return a block as native data, which are the same for a stream and a complete answer."""
    return make_native(
        PROTOCOL, {kind: dict(sorted(inner.items())) for kind, inner in block.items()}
    )


def write_arguments(value: Any) -> str:
    """Return the arguments of a call as text."""
    return "{}" if value is None else write_json(value)
