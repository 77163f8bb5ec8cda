"""Calls that another vendor executed itself, as items of this protocol.

An item contains its call and the result. So the native data of a result only name its call, whose
item is completed when the result is written.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from vibe_llms.dialects.executions import (
    ExecutionForms,
    compose_id,
    read_code,
    read_fields,
    read_query,
)
from vibe_llms.dialects.responses.calling.hosted import read_call
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.server_results import find_mcp_server
from vibe_llms.messages.canisters import AssistantCanister, InvocationCanister, ResultCanister
from vibe_llms.messages.contents import AnyContent, Citation, TextualContent
from vibe_llms.messages.requests import Response


def _write_call(call: InvocationCanister) -> dict[str, Any] | None:
    server = find_mcp_server(call.native)
    if server is not None:
        item = _start("mcp_call", "mcp", call)
        return {**item, "name": call.name, "server_label": server, "arguments": call.arguments}
    match call.name:
        case "web_search":
            query = read_query(call)
            action = {"type": "search", "query": query, "queries": [query]}
            return {**_start("web_search_call", "ws", call), "action": action}
        case "web_fetch":
            action = {"type": "open_page", "url": str(read_fields(call).get("url", ""))}
            return {**_start("web_search_call", "ws", call), "action": action}
        case "code_execution":
            item = _start("code_interpreter_call", "ci", call)
            return {**item, "code": read_code(call), "container_id": "", "outputs": None}
        case "file_search":
            item = _start("file_search_call", "fs", call)
            return {**item, "queries": [read_query(call)], "results": None}
    return None


def _start(kind: str, prefix: str, call: InvocationCanister) -> dict[str, Any]:
    identity = compose_id(prefix, call.invocation_id)
    return {"type": kind, "id": identity, "status": "completed"}


def _write_result(result: ResultCanister, call: dict[str, Any]) -> dict[str, Any]:
    return {"$within": result.invocation_id}


def complete_citations(response: Response) -> Response:
    """Return a response in which each citation of a page has a span, by default the whole text."""
    canisters = [
        attrs.evolve(canister, content=[_add_spans(each) for each in canister.content])
        if isinstance(canister, AssistantCanister) and any(map(_lacks_spans, canister.content))
        else canister
        for canister in response.canisters
    ]
    return attrs.evolve(response, canisters=canisters)


def _lacks_spans(content: AnyContent) -> bool:
    return isinstance(content, TextualContent) and any(map(lacks_span, content.citations))


def lacks_span(citation: Citation) -> bool:
    """Return whether a citation of a page lacks a span, which this protocol requires."""
    return citation.url is not None and (citation.start is None or citation.end is None)


def _add_spans(content: AnyContent) -> AnyContent:
    return add_spans(content) if isinstance(content, TextualContent) else content


def add_spans(content: TextualContent) -> TextualContent:
    """Return a text whose citations without a span cite the whole text."""
    if not any(map(lacks_span, content.citations)):
        return content
    end = len(content.text)
    citations = [
        attrs.evolve(each, start=0, end=end) if lacks_span(each) else each
        for each in content.citations
    ]
    return attrs.evolve(content, citations=citations)


FORMS: Final = ExecutionForms(PROTOCOL, _write_call, _write_result, read_call)
