"""Calls that another vendor executed itself, as parts of this protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.executions import (
    ExecutionForms,
    compose_id,
    list_sources,
    read_code,
    read_fields,
    read_query,
    read_result_text,
)
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister

_TOOL_TYPES: Final = {
    "file_search": "FILE_SEARCH",
    "maps": "GOOGLE_MAPS",
    "web_fetch": "URL_CONTEXT",
    "web_search": "GOOGLE_SEARCH_WEB",
}


def choose_forms(request: Mapping[str, Any]) -> ExecutionForms:
    """Return the forms for a client, by its request: calls of tools are shown if it asks for them.

    Code is always shown.
    """
    config = request.get("toolConfig") or {}
    shows = isinstance(config, Mapping) and config.get("includeServerSideToolInvocations")
    return _ALL if shows else _CODE


def _write_code(call: InvocationCanister) -> dict[str, Any] | None:
    if call.name != "code_execution":
        return None
    code = {"language": "PYTHON", "code": read_code(call)}
    return {"executableCode": {**code, "id": compose_id("code", call.invocation_id)}}


def _write_call(call: InvocationCanister) -> dict[str, Any] | None:
    tool_type = _TOOL_TYPES.get(call.name)
    if tool_type is None:
        return _write_code(call)
    arguments = {"queries": [read_query(call)]}
    if call.name == "web_fetch":
        arguments = {"urls": [str(read_fields(call).get("url", ""))]}
    identity = compose_id("tool", call.invocation_id)
    return {"toolCall": {"id": identity, "toolType": tool_type, "args": arguments}}


def _write_result(result: ResultCanister, call: dict[str, Any]) -> dict[str, Any]:
    text = read_result_text(result)
    if "executableCode" in call:
        outcome = "OUTCOME_FAILED" if result.is_error else "OUTCOME_OK"
        identity = call["executableCode"]["id"]
        return {"codeExecutionResult": {"id": identity, "outcome": outcome, "output": text}}
    head = {name: call["toolCall"][name] for name in ("id", "toolType")}
    pages = [{"title": each.title, "url": each.url} for each in list_sources(result)]
    response = {"results": pages} if pages else {"output": text}
    return {"toolResponse": {**head, "response": response}}


_ALL: Final = ExecutionForms(PROTOCOL, _write_call, _write_result)
_CODE: Final = ExecutionForms(PROTOCOL, _write_code, _write_result)
