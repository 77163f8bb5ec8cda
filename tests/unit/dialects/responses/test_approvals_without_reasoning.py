"""A request for approval keeps its id if the reasoning before it cannot be sent."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.calling.item_order import WrittenItem, settle_reasoning

THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.mark.parametrize(
    ("item", "keeps"),
    [
        ({"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "arguments": "{}"}, True),
        ({"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}"}, True),
        ({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}, False),
        ({"type": "message", "id": "msg_1", "role": "assistant", "content": []}, False),
    ],
)
def test_an_item_that_is_referred_to_by_its_id_keeps_it(item: dict[str, Any], keeps: bool) -> None:
    written = [WrittenItem(THOUGHT, "canisters[0]"), WrittenItem(item, "canisters[1]")]
    ledger = Ledger(protocol="responses")
    [kept] = settle_reasoning(written, ledger, is_stored=False)
    assert ("id" in kept) is keeps
    assert len(ledger.losses) == (1 if keeps else 2)
