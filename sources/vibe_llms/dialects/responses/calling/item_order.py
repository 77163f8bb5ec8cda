"""The vendor's rules for the order of items around reasoning.

Reasoning belongs to the model's next item: alone it is rejected. A reference to reasoning by its id
works only if the vendor stored the reasoning. If not, the reasoning is omitted, and the next item
is sent without its id, as the id would make the vendor look for the reasoning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.calling.items import SUPERVISOR_ITEMS, USER_ITEMS
from vibe_llms.foundation.attrs_classes import frozen


@frozen
class WrittenItem:
    """An item of a request, and the path of its canister or content."""

    item: dict[str, Any]
    path: str


def settle_reasoning(
    written: Sequence[WrittenItem], ledger: Ledger, *, is_stored: bool
) -> list[dict[str, Any]]:
    """Return the items that may be sent; reasoning that the vendor would reject is withheld.

    Args:
        is_stored: Whether the vendor may know earlier items by their ids.
    """
    settled: list[dict[str, Any]] = []
    has_lost_reasoning = False
    for each, is_followed in zip(written, _find_followed(written), strict=True):
        item = each.item
        if not _is_models(item):
            has_lost_reasoning = False
        elif item.get("type") == "reasoning":
            if not is_stored and _is_reference(item):
                ledger.withhold(each.path, "only its id is known, and the vendor has not stored it")
                has_lost_reasoning = True
                continue
            if not is_followed:
                ledger.withhold(
                    each.path, "the vendor rejects reasoning without the output after it"
                )
                continue
        elif has_lost_reasoning and "id" in item and _can_lose_id(item):
            item = {name: value for name, value in item.items() if name != "id"}
            ledger.withhold(f"{each.path}.native", "id: it would require the reasoning before it")
        settled.append(item)
    return settled


def _can_lose_id(item: dict[str, Any]) -> bool:
    """Return whether an item can be sent without its id, as no other item refers to that id.

    Results refer to the ``call_id`` of a call. Answers to an approval request, and results of calls
    that the vendor executed, refer to the id of an item.
    """
    return item.get("type") in (None, "message") or "call_id" in item


def _is_reference(item: dict[str, Any]) -> bool:
    """Return whether only the id of reasoning is known, without its contents."""
    has_contents = any(item.get(name) for name in ("encrypted_content", "content"))
    return bool(item.get("id")) and not has_contents


def _find_followed(written: Sequence[WrittenItem]) -> list[bool]:
    """Return for each item whether the next one that is not reasoning is the model's."""
    followed: list[bool] = []
    is_models = False
    for each in reversed(written):
        followed.append(is_models)
        if each.item.get("type") != "reasoning":
            is_models = _is_models(each.item)
    return followed[::-1]


def _is_models(item: dict[str, Any]) -> bool:
    """Return whether an item is from the model, or from the vendor on the model's behalf."""
    kind = str(item.get("type") or "message")
    if kind == "message":
        return item.get("role") == "assistant"
    if kind in SUPERVISOR_ITEMS or kind in USER_ITEMS:
        return False
    return not (kind.endswith("_output") or kind == "mcp_approval_response")
