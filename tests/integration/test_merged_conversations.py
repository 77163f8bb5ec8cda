"""Merged conversations: each vendor accepts the request, and names no call twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.stores.talks import call, exchange, fork, save
from support.vendors.shipped import SHIPPED
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.lineage import merge_conversations, pick_turns
from vibe_llms.messages.canisters import StopReason, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.testing.simulator import Simulator

VENDORS = [
    each
    for each in ("anthropic", "google", "ollama", "openai_conversations", "openai_responses")
    if each in SHIPPED
]


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A running server, which validates requests as the vendors do."""
    async with Simulator() as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_vendor_answers_a_merge(simulator: Simulator, vendor: str, tmp_path: Path) -> None:
    """Both endings have a call with the same id, and one call has no result."""
    store = MemoryStore()
    first = save(store, [*exchange("one"), *call("two", "call_0"), *exchange("three")])
    second = fork(store, first, [*call("four", "call_0"), *call("five", "x", result=None)], at=2)
    other = save(store, [*call("six", "call_0")])
    merged = merge_conversations(store, first, second).identity
    picked = pick_turns(store, other, [1], merged).identity
    model = await SHIPPED[vendor].access(simulator.url, tmp_path)
    try:
        canisters = [*store.read(picked).canisters, UserCanister("Go on.")]
        response = await model.stream(Request(canisters=canisters)).response()
    finally:
        await model._client.close()
    assert response.stop_reason is StopReason.ANSWERED
