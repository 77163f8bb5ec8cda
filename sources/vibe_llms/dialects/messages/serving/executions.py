"""Calls that another vendor executed itself, as blocks of this protocol."""

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
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.server_results import find_mcp_server
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister
from vibe_llms.messages.contents import Citation


def _write_call(call: InvocationCanister) -> dict[str, Any] | None:
    server = find_mcp_server(call.native)
    if server is not None:
        head = {"type": "mcp_tool_use", "id": compose_id("mcptoolu", call.invocation_id)}
        return {**head, "name": call.name, "server_name": server, "input": read_fields(call)}
    arguments: dict[str, Any]
    match call.name:
        case "web_search":
            arguments = {"query": read_query(call)}
        case "web_fetch":
            arguments = {"url": str(read_fields(call).get("url", ""))}
        case "code_execution":
            arguments = {"code": read_code(call)}
        case _:
            return None
    identity = compose_id("srvtoolu", call.invocation_id)
    return {"type": "server_tool_use", "id": identity, "name": call.name, "input": arguments}


def _write_result(result: ResultCanister, call: dict[str, Any]) -> dict[str, Any] | None:
    text = read_result_text(result)
    head = {"tool_use_id": call["id"]}
    match call["type"], call["name"]:
        case "mcp_tool_use", _:
            block = {"type": "mcp_tool_result", **head, "is_error": result.is_error}
            return {**block, "content": [{"type": "text", "text": text}]}
        case _, "web_search":
            pages = [_write_page(source) for source in list_sources(result)]
            return {"type": "web_search_tool_result", **head, "content": pages}
        case _, "web_fetch":
            sources = list_sources(result)
            source = {"type": "text", "media_type": "text/plain", "data": text}
            document = {"type": "document", "source": source, "title": None}
            if sources:
                document["title"] = sources[0].title
            url = sources[0].url if sources else call["input"]["url"]
            fetched = {"type": "web_fetch_result", "url": url, "content": document}
            return {"type": "web_fetch_tool_result", **head, "content": fetched}
    outputs = {"stdout": "", "stderr": text} if result.is_error else {"stdout": text, "stderr": ""}
    executed = {"type": "code_execution_result", **outputs, "return_code": int(result.is_error)}
    executed["content"] = []
    return {"type": "code_execution_tool_result", **head, "content": executed}


def _write_page(source: Citation) -> dict[str, Any]:
    page = {"type": "web_search_result", "url": source.url, "title": source.title or ""}
    return {**page, "encrypted_content": "", "page_age": None}


FORMS: Final = ExecutionForms(PROTOCOL, _write_call, _write_result)


def write_foreign_citation(citation: Citation) -> dict[str, Any] | None:
    """Return the citation of another vendor's answer; ``None`` if it is not of a page."""
    if not citation.url:
        return None
    return {
        "type": "web_search_result_location",
        "url": citation.url,
        "title": citation.title,
        "cited_text": citation.cited_text or "",
        "encrypted_index": "",
    }
