"""Items of the protocol, and the canisters in which they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from vibe_llms.daemons.asgi import refuse_body
from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.dialects.history import HistoryEntry
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.calling.messages import ItemsWriter
from vibe_llms.dialects.responses.calling.parts import PartsWriter
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.responses.serving.messages import normalize_messages
from vibe_llms.dialects.serving import UNKNOWN_MODEL
from vibe_llms.messages.canisters import AnyCanister

_PREFIXES: Final[Mapping[str, str]] = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}
_TYPES_WITH_STATUS: Final = frozenset({"message", "function_call", "function_call_output"})
_MAX_LISTED: Final = 100
_QUIRKS: Final = Quirks(supervisor_role="developer", takes_reasoning=True, takes_audio=True)


def read_input(value: object) -> list[Any]:
    """Return the items in a request's ``input``; a text is a message of the user.

    Raises:
        RequestError: It is neither a text nor a list.
    """
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return read_item_list(value, "input")


def read_item_list(value: object, field: str = "items") -> list[Any]:
    """Return the items of a field; none if it is missing. Raises RequestError."""
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise refuse_body(f"{field} must be a list of items.", field)


def read_canisters(items: Sequence[Any]) -> tuple[AnyCanister, ...]:
    """Return the canisters of items. Raises RequestError."""
    return normalize_messages({"input": list(items)}).value if items else ()


def write_request_items(canisters: Iterable[AnyCanister]) -> list[Fields]:
    """Return canisters as the items of a request; only items that came with an id have one."""
    writer = _produce_writer(is_answer=False)
    writer.write(HistoryEntry(canister, canister.id) for canister in canisters)
    return [each.item for each in writer.written]


def write_items(canisters: Iterable[AnyCanister]) -> list[Fields]:
    """Return canisters as items for the client: complete, with permanent ids."""
    writer = _produce_writer(is_answer=False)
    items = []
    for canister in canisters:
        start = len(writer.written)
        writer.write([HistoryEntry(canister, canister.id)])
        for number, each in enumerate(writer.written[start:]):
            items.append(_complete(each.item, canister.id + (f"_{number}" if number else "")))
    return items


def _produce_writer(*, is_answer: bool) -> ItemsWriter:
    parts = PartsWriter(UNKNOWN_MODEL, _QUIRKS, Ledger(protocol=PROTOCOL))
    return ItemsWriter(parts=parts, is_answer=is_answer)


def _complete(item: Fields, identity: str) -> Fields:
    """Return an item with all fields that the vendor lists."""
    kind = str(item.get("type") or "message")
    item_id = item.get("id")
    if not (item_id and isinstance(item_id, str)):  # clients may send any value
        item_id = f"{_PREFIXES.get(kind, kind)}_{identity}"
    complete_item: Fields = {"type": kind, **item, "id": item_id}
    if kind in _TYPES_WITH_STATUS:
        complete_item.setdefault("status", "completed")
    if kind == "message":
        complete_item["content"] = _complete_content(item.get("content"), item.get("role"))
    return complete_item


def _complete_content(content: Any, role: object) -> list[Any]:
    parts = content
    if isinstance(content, str):
        kind = "output_text" if role == "assistant" else "input_text"
        parts = [{"type": kind, "text": content}]
    complete_contents = []
    for part in parts or ():
        if isinstance(part, dict) and part.get("type") == "output_text":
            complete_contents.append({"annotations": [], "logprobs": [], **part})
        else:
            complete_contents.append(part)
    return complete_contents


def compose_page(items: Sequence[Fields], query: Mapping[str, str]) -> Fields:
    """Return a page of a list, as requested in the query.

    Raises:
        RequestError: The query is invalid, or names an unknown item.
    """
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise refuse_body("order must be asc or desc.", "order")
    limit = query.get("limit", "20")
    is_number = limit.isascii() and limit.isdigit() and len(limit) < 9
    if not is_number or not 1 <= int(limit) <= _MAX_LISTED:
        raise refuse_body(f"limit must be between 1 and {_MAX_LISTED}.", "limit")
    listed = list(items) if order == "asc" else list(reversed(items))
    if after := query.get("after", ""):
        listed = listed[_find_index(listed, after) + 1 :]
    page = listed[: int(limit)]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(page) < len(listed),
    }


def _find_index(items: Sequence[Fields], identity: str) -> int:
    for index, item in enumerate(items):
        if item["id"] == identity:
            return index
    raise refuse_body(f"Unknown item {identity!r}.", "after")
