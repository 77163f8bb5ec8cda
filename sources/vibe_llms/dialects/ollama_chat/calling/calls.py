"""Invocations in a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import NAMELESS, collect_extras, write_json
from vibe_llms.messages.losses import Loss, LossKind

COMMON_FIELDS: Final = frozenset({"role", "content", "thinking", "images", "tool_calls"})
"""The common fields of a message."""


def read_call(call: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return the name, the arguments as text, and the extras of an invocation."""
    function = call["function"]
    name, arguments = function["name"], function.get("arguments")
    if not isinstance(name, str):
        raise TypeError("the name of a function is not a text")
    extras = collect_extras(call, ("id", "function"))
    if inner := collect_extras(function, ("name", "arguments")):
        extras["function"] = inner
    if not call.get("id"):
        extras |= NAMELESS
    text = arguments if isinstance(arguments, str) else encode_arguments(arguments or {})
    return name, text, extras


def report_text_arguments(call: Mapping[str, Any], path: str) -> list[Loss]:
    """Return the loss of arguments that came as text instead of an object; none for others."""
    if not isinstance(call["function"].get("arguments"), str):
        return []
    place, reason = f"{path}.function.arguments", "a text was received instead of an object"
    return [Loss(kind=LossKind.COERCED, path=place, reason=reason)]


def encode_arguments(arguments: object) -> str:
    """Return the text of arguments that came as an object; the order and numbers do not change."""
    return write_json(arguments)
