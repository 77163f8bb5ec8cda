"""The vendor's rules for the order of items around reasoning.

Reasoning belongs to the model's next item: alone it is rejected. Reasoning that is known only by
its id can be found only if the vendor stored it; otherwise the next item is sent without its id,
too, since the vendor would look for the reasoning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.calling.items import ASKED_OF_MODEL, SAID_TO_MODEL
from vibe_llms.foundation.attrs_classes import frozen


@frozen
class Written:
    """An item of a request, and the path of its canister or content."""

    item: dict[str, Any]
    path: str


def settle_reasoning(
    written: Sequence[Written], ledger: Ledger, *, is_stored: bool
) -> list[dict[str, Any]]:
    """Return the items that may be sent; reasoning that the vendor would reject is withheld.

    Args:
        is_stored: Whether the vendor may know earlier items by their ids.
    """
    kept: list[dict[str, Any]] = []
    forgets = False
    for each, is_followed in zip(written, _find_followed(written), strict=True):
        item = each.item
        if not _is_models(item):
            forgets = False
        elif item.get("type") == "reasoning":
            if not is_stored and _is_reference(item):
                ledger.withhold(each.path, "only its id is known, and the vendor has not stored it")
                forgets = True
                continue
            if not is_followed:
                ledger.withhold(
                    each.path, "the vendor rejects reasoning without the output after it"
                )
                continue
        elif forgets and "id" in item and _has_other_name(item):
            item = {name: value for name, value in item.items() if name != "id"}
            ledger.withhold(f"{each.path}.native", "id: it would require the reasoning before it")
        kept.append(item)
    return kept


def _has_other_name(item: dict[str, Any]) -> bool:
    """Return whether an item can go without its id: what answers it names it otherwise, if at all.

    An approval that is asked for has no other name, nor has what the vendor executed itself.
    """
    return item.get("type") in (None, "message") or "call_id" in item


def _is_reference(item: dict[str, Any]) -> bool:
    said = ("encrypted_content", "content")
    return bool(item.get("id")) and not any(item.get(name) for name in said)


def _find_followed(written: Sequence[Written]) -> list[bool]:
    """Return for each item whether the next one that is not reasoning is the model's."""
    followed: list[bool] = []
    is_models = False
    for each in reversed(written):
        followed.append(is_models)
        if each.item.get("type") != "reasoning":
            is_models = _is_models(each.item)
    return followed[::-1]


def _is_models(item: dict[str, Any]) -> bool:
    """Return whether an item is one of the model, or of the vendor on its behalf."""
    kind = str(item.get("type") or "message")
    if kind == "message":
        return item.get("role") == "assistant"
    if kind in SAID_TO_MODEL or kind in ASKED_OF_MODEL:
        return False
    return not (kind.endswith("_output") or kind == "mcp_approval_response")
