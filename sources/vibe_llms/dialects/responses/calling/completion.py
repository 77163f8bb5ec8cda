"""Results of calls that another vendor executed, in the items of the calls, for clients."""

from __future__ import annotations

from typing import Any

from vibe_llms.dialects.executions import is_foreign_id, list_sources, read_result_text
from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.messages.contents import TextualContent


def complete_call(item: dict[str, Any], result: ResultCanister) -> None:
    """Put a result into the item of its call, unless the vendor of the item has done so."""
    if not is_foreign_id(item.get("id")):
        return
    text = read_result_text(result)
    match item["type"]:
        case "web_search_call":
            sources = [{"type": "url", "url": each.url} for each in list_sources(result)]
            item["action"] = {**item["action"], "sources": sources}
        case "code_interpreter_call":
            item["outputs"] = [{"type": "logs", "logs": text}]
        case "file_search_call":
            item["results"] = [
                {
                    "text": each.text,
                    "filename": each.citations[0].title if each.citations else None,
                    "file_id": each.citations[0].file_id if each.citations else None,
                }
                for each in result.content
                if isinstance(each, TextualContent)
            ]
        case "mcp_call":
            item["error" if result.is_error else "output"] = text
