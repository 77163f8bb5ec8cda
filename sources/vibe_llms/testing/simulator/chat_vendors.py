"""Chat Completions: requests that OpenAI accepts and some compatible vendors refuse."""

from __future__ import annotations

import re

from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require
from vibe_llms.testing.simulator.signatures import is_intact


def check_vendor(request: SimulatedRequest) -> None:
    """Refuse requests that the vendor whose quirks are set would refuse."""
    conditions, messages = request.conditions, request.body["messages"]
    for index, message in enumerate(messages):
        calls = message.get("tool_calls") or []
        for call in calls if "mistral" in conditions else ():
            require(
                re.fullmatch(r"[a-zA-Z0-9]{9}", call["id"]),
                f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9.",
                code="3280",
            )
        if "deepseek" in conditions and calls and request.body.get("tools"):
            require(
                message.get("reasoning_content") is not None,
                "The `reasoning_content` in the thinking mode must be passed back to the API "
                f"(message {index}).",
            )
        for detail in message.get("reasoning_details") or []:
            if detail.get("signature") is not None:
                require(
                    is_intact(detail["signature"], detail.get("text", ""), kind="chat"),
                    f"messages[{index}].reasoning_details: Invalid `signature`.",
                )
    last = messages[-1]["role"]
    if "perplexity" in conditions and last not in ("user", "tool"):
        raise SimulatedRefusal(
            400, "invalid", "Last message must have role `user`.", code="invalid_message"
        )
    if "mistral" in conditions and last == "assistant" and not messages[-1].get("prefix"):
        raise SimulatedRefusal(
            400,
            "invalid",
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
            "assistant",
            code="3230",
        )
