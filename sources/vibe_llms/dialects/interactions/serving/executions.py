"""Calls that another vendor executed itself, as steps of this protocol."""

from __future__ import annotations

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
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister


def _write_call(call: InvocationCanister) -> dict[str, Any] | None:
    arguments: dict[str, Any]
    match call.name:
        case "web_search":
            kind, arguments = "google_search", {"queries": [read_query(call)]}
        case "web_fetch":
            kind, arguments = "url_context", {"urls": [str(read_fields(call).get("url", ""))]}
        case "code_execution":
            kind, arguments = "code_execution", {"language": "python", "code": read_code(call)}
        case _:
            return None
    identity = compose_id("call", call.invocation_id)
    return {"type": f"{kind}_call", "id": identity, "arguments": arguments}


def _write_result(result: ResultCanister, call: dict[str, Any]) -> dict[str, Any]:
    kind = call["type"].removesuffix("_call")
    step = {"type": f"{kind}_result", "call_id": call["id"], "is_error": result.is_error}
    if kind == "code_execution":
        return {**step, "result": read_result_text(result)}
    pages = [{"url": each.url, "title": each.title} for each in list_sources(result)]
    return {**step, "result": pages}


FORMS: Final = ExecutionForms(PROTOCOL, _write_call, _write_result)
