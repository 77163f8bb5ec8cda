"""Responses: what a request that was checked asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vibe_llms.testing.simulator.asking import (
    Ask,
    Attachment,
    Offer,
    ToolResult,
    count_request_tokens,
    read_base64,
    read_data_url,
    write_text,
)
from vibe_llms.testing.simulator.faces import Setting
from vibe_llms.testing.simulator.response_requests import CALLS, list_items, write_prefix


def read_request(setting: Setting) -> Ask:
    """Reads a request that was checked."""
    body = setting.body
    items = list_items(setting)
    users = [i for i in items if i["type"] == "message" and i["role"] == "user"]
    content = users[-1]["content"] if users else ""
    tools = body.get("tools") or ()
    kinds = {str(tool.get("type")) for tool in tools}
    form = (body.get("text") or {}).get("format") or {}
    reasoning = body.get("reasoning") or {}
    schema: Any = {"json_schema": form.get("schema"), "json_object": {}}.get(str(form.get("type")))
    return Ask(
        model=str(body["model"]),
        text=content
        if isinstance(content, str)
        else write_text([part for part in content if part.get("type") == "input_text"]),
        attachments=tuple(_read_media(content)) if items[-1:] == users[-1:] else (),
        offers=tuple(
            Offer(
                name=tool["name"],
                schema=tool.get("parameters") or {},
                custom=tool["type"] == "custom",
            )
            for tool in tools
            if tool.get("type") in ("function", "custom")
        ),
        outcomes=tuple(_read_outcomes(items)),
        demand=_read_choice(body.get("tool_choice")),
        parallel=body.get("parallel_tool_calls") is not False,
        schema=schema,
        reasons=reasoning.get("effort") not in (None, "none", "minimal")
        or reasoning.get("summary") is not None,
        searches=any(kind.startswith("web_search") for kind in kinds),
        draws="image_generation" in kinds,
        limit=body.get("max_output_tokens"),
        received=count_request_tokens(body.get("instructions"), items, tools),
        prefix=write_prefix(body, items),
        streams=bool(body.get("stream")),
    )


def _read_choice(choice: Any) -> str | None:
    if isinstance(choice, Mapping):
        if choice.get("type") == "allowed_tools":
            return "*" if choice.get("mode") == "required" else None
        return str(choice["name"]) if "name" in choice else None
    return {"required": "*", "none": "-"}.get(str(choice))


def _read_outcomes(items: list[dict[str, Any]]) -> Iterator[ToolResult]:
    names = {item["call_id"]: item["name"] for item in items if item["type"] in CALLS}
    start = len(items)
    while start and items[start - 1]["type"] in CALLS.values():
        start -= 1
    for item in items[start:]:
        name = names.get(item["call_id"], "the tool")
        yield ToolResult(name=name, text=write_text(item.get("output") or ""))


def _read_media(content: Any) -> Iterator[Attachment]:
    for part in content if isinstance(content, list) else ():
        match part["type"]:
            case "input_image":
                url = part.get("image_url")
                yield read_data_url(url) if url else Attachment(media_type="image/*")
            case "input_file":
                data = part.get("file_data")
                yield read_data_url(data) if data else Attachment(media_type="file/*")
            case "input_audio":
                audio = part.get("input_audio") or {}
                kind = f"audio/{audio.get('format')}"
                yield Attachment(media_type=kind, data=read_base64(audio.get("data")) or b"")
