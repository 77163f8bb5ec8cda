"""Messages: validation of the signatures and the positions of thinking blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.refusals import require
from vibe_llms.testing.simulator.signatures import canonicalize, is_intact


def check_thinking(messages: list[dict[str, Any]], request: SimulatedRequest) -> None:
    """Refuse changed or misplaced thinking blocks."""
    body = request.body
    covers_prefix = "prefix_bound_thinking" in request.conditions
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        prefix = write_prefix(body, messages[:index]) if covers_prefix else None
        for place, block in enumerate(message["content"]):
            where = f"messages.{index}.content.{place}"
            if block["type"] == "thinking":
                intact = is_intact(
                    block.get("signature"), block.get("thinking"), kind="messages", prefix=prefix
                )
                require(intact, f"{where}: Invalid `signature` in `thinking` block")
            if block["type"] == "redacted_thinking":
                intact = is_intact(block.get("data"), None, kind="redacted", prefix=prefix)
                require(intact, f"{where}: Invalid `data` in `redacted_thinking` block")
    _check_order(messages, body)


def _check_order(messages: list[dict[str, Any]], body: Mapping[str, Any]) -> None:
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens")
        require(
            isinstance(budget, int) and budget >= 1024,
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        )
        limit = body.get("max_tokens")
        require(
            limit is None or limit > budget,
            "`max_tokens` must be greater than `thinking.budget_tokens`.",
        )
    # Only the last turn must begin with its thinking; clients may omit the thinking of earlier
    # turns.
    for index, message in enumerate(messages[-2:]):
        kinds = [block["type"] for block in message["content"]]
        thoughts = [i for i, kind in enumerate(kinds) if kind in ("thinking", "redacted_thinking")]
        if message["role"] != "assistant" or "tool_use" not in kinds or not thoughts:
            continue
        require(
            thoughts[0] < kinds.index("tool_use"),
            f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
            "found `tool_use`. When `thinking` is enabled, a final `assistant` message must start "
            "with a thinking block.",
        )


def write_prefix(body: Mapping[str, Any], messages: list[dict[str, Any]]) -> str:
    """Return the conversation before a message, which its signatures cover."""
    system = body.get("system")
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    return canonicalize(system, body.get("tools"), messages)
