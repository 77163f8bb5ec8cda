"""Results of vendors' tools that we execute, as the items that the vendor expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import compose_data_url
from vibe_llms.dialects.responses.calling.hosted import read_tool_output
from vibe_llms.messages.canisters import Owner, ResultCanister
from vibe_llms.messages.contents import ImageContent, TextualContent


def write_tool_output(
    result: ResultCanister, kind: str, extras: Mapping[str, Any], path: str, ledger: Ledger
) -> dict[str, Any]:
    """Return the item that answers a call.

    Args:
        kind: The type of the expected item.
        extras: Fields of the vendor's item, if the result came as an item.
    """
    if extras.get("type") == kind:
        # The vendor's item has further fields; common fields that were changed replace fields of
        # the item.
        if _is_unchanged(result, extras):
            name = "approval_request_id" if kind == "mcp_approval_response" else "call_id"
            return {**extras, **({name: result.invocation_id} if extras.get(name) else {})}
        if kind == "computer_call_output":
            return merge(_write_screen(result, path, ledger), extras)
    return _write_new(kind, result, path, ledger)


def _is_unchanged(result: ResultCanister, extras: Mapping[str, Any]) -> bool:
    """Return whether the result is unchanged since it was read from the vendor's item."""
    original = read_tool_output(extras, Owner.OURS)
    return original.content == result.content and original.is_error == result.is_error


def _write_new(kind: str, result: ResultCanister, path: str, ledger: Ledger) -> dict[str, Any]:
    if kind == "computer_call_output":
        return _write_screen(result, path, ledger)
    item: dict[str, Any] = {"type": kind, "call_id": result.invocation_id}
    text = _write_text(result, path, ledger)
    if kind == "shell_call_output":
        outcome = {"type": "exit", "exit_code": int(result.is_error)}  # no other code is known
        item["output"] = [{"stdout": text, "stderr": "", "outcome": outcome}]
    elif kind == "local_shell_call_output":
        item = {"type": kind, "id": result.invocation_id, "output": text}
    elif kind == "apply_patch_call_output":
        item |= {"status": "failed" if result.is_error else "completed", "output": text}
    elif kind == "mcp_approval_response":
        item = {"type": kind, "approval_request_id": result.invocation_id}
        item["approve"] = not result.is_error
        if text:
            item["reason"] = text
    else:
        item |= {"execution": "client", "tools": _read_tools(text, path, ledger)}
    return item


def _write_screen(result: ResultCanister, path: str, ledger: Ledger) -> dict[str, Any]:
    screen: dict[str, Any] = {"type": "computer_screenshot"}
    for index, content in enumerate(result.content):
        place = f"{path}.content[{index}]"
        if not isinstance(content, ImageContent) or len(screen) > 1:
            ledger.drop(place, "the result of a computer call is one screenshot")
            continue
        settled = ledger.drop_foreign_file(content, place, result)
        if settled is None:
            continue
        if content.data is None and content.url:
            screen["image_url"] = content.url
        elif content.data is None and settled.file_id:
            screen["file_id"] = settled.file_id
        else:
            screen["image_url"] = compose_data_url(content, place)
    return {"type": "computer_call_output", "call_id": result.invocation_id, "output": screen}


def _write_text(result: ResultCanister, path: str, ledger: Ledger) -> str:
    texts = []
    for index, content in enumerate(result.content):
        if isinstance(content, TextualContent):
            texts.append(content.text)
        else:
            reason = f"results of this tool have only text, not {content.type} content"
            ledger.drop(f"{path}.content[{index}]", reason)
    return "".join(texts)


def _read_tools(text: str, path: str, ledger: Ledger) -> list[Any]:
    try:
        tools = msgspec.json.decode(text)
    except msgspec.DecodeError:
        tools = None
    if isinstance(tools, list):
        return tools
    ledger.drop(path, "the result of a tool search is a JSON list of tools")
    return []
