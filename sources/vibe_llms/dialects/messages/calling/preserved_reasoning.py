"""Reasoning that a model accepts only in the conversation in which it was written.

From Claude Fable 5.1 on, the vendor compares what precedes a returned thinking block, such as the
instructions, tools and messages, with what preceded it when it was written. If they differ, it
rejects the request, or drops the block and reports that. A conversation may be edited, compacted or
continued with other tools, so that the second is requested.

https://platform.claude.com/docs/build-with-claude/preserved-thinking, read 2026-11-30; types of the
PyPI distribution anthropic 2.12.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import join_fields, merge
from vibe_llms.messages.losses import Loss, LossKind

_BETA: Final = "thinking-binding-controls-2026-08-01"
_BINDING: Final = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})

_REASONS: Final = {
    "end_user_binding_mismatch": "it belongs to another end user",
    "model_binding_mismatch": "this model cannot read it",
    "organization_binding_mismatch": "it belongs to another organization",
    "prefix_binding_mismatch": "something before it has changed",
}


def drop_stale_reasoning(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request that asks the vendor to drop reasoning whose beginning has changed.

    A request without reasoning is not changed, nor are the parameters that it has.
    """
    if not any(map(_has_thoughts, body["messages"])):
        return body
    body = {**body, "thinking": merge(_BINDING, body.get("thinking") or {})}
    return join_fields({"betas": [_BETA]}, body)


def _has_thoughts(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(block.get("type") in _THOUGHTS for block in content)


def survey_dropped_reasoning(transformations: object) -> Iterator[Loss]:
    """Yield a loss for each block that the vendor has dropped from a request."""
    for each in transformations if isinstance(transformations, list) else ():
        if isinstance(each, Mapping) and each.get("type") == "thinking_dropped":
            reason = str(each.get("reason"))
            path = re.sub(r"\.(\d+)", r"[\1]", str(each.get("path")))
            yield Loss(
                kind=LossKind.DROPPED,
                path=path,
                reason=f"the vendor left out this reasoning: {_REASONS.get(reason, reason)}",
            )
