"""Nearest supported alternative to a parameter: another value, or another control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import ResultCanister, UserCanister
from vibe_llms.messages.contents import ReasoningContent
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import Control, IntervalControl, OptionsControl, SequenceControl

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All efforts, from the least reasoning to the most."""

_EFFORT: Final = "reasoning_effort"
_BUDGET: Final = "reasoning_budget_tokens"
_BUDGETS: Final = {"minimal": 1_024, "low": 1_024, "medium": 8_192}
_HIGHEST_BUDGET: Final = 24_576
"""Budget of the highest effort, as Google maps efforts for models that have budgets:
https://ai.google.dev/gemini-api/docs/openai#thinking (read 2026-11-26).
"""

_SAMPLING: Final = frozenset({"temperature", "top_k", "top_p"})


def find_nearest(
    name: str, request: Request, controls: Mapping[str, Control], provider: str = ""
) -> tuple[str, JsonValue] | None:
    """Return a control and a value that the model accepts; ``None`` if nothing is similar.

    Args:
        name: A control of the request that the model does not have, or not with this value.
        controls: The model's controls, by name.
        provider: The model's provider.
    """
    value, control = request.controls[name], controls.get(name)
    match control:
        case OptionsControl():
            effort = _choose_effort(value, control.options)
            return None if effort is None else (name, effort)
        case SequenceControl(maximum_items=int() as maximum) if isinstance(value, (list, tuple)):
            return name, list(value[:maximum])
        case IntervalControl(maximum=int() | float() as bound) if _exceeds(value, bound):
            return name, bound
        case None if name == _BUDGET:
            return _find_effort(value, request, controls)
        case None if name == _EFFORT:
            return _find_budget(value, request, controls, provider)
    return None


def _choose_effort(value: JsonValue, options: Sequence[JsonValue]) -> str | None:
    """Return the highest effort up to the requested one, or otherwise the lowest."""
    if not isinstance(value, str) or value not in EFFORTS:
        return None
    if value in options:
        return value
    supported = [each for each in EFFORTS if each in options and each != "none"]
    lower = [each for each in supported if EFFORTS.index(each) < EFFORTS.index(value)]
    return lower[-1] if lower else next(iter(supported), None)


def _exceeds(value: JsonValue, bound: float) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and isinstance(value, (int, float)) and value > bound


def _find_effort(
    value: JsonValue, request: Request, controls: Mapping[str, Control]
) -> tuple[str, JsonValue] | None:
    """Return the effort that corresponds to a budget."""
    control = controls.get(_EFFORT)
    if not isinstance(control, OptionsControl) or _EFFORT in request.controls:
        return None
    if not isinstance(value, int) or value < 0:  # a negative budget leaves the choice to the model
        return None
    similar = next((each for each in ("low", "medium") if value < 2 * _BUDGETS[each]), "high")
    effort = _choose_effort("none" if value == 0 else similar, control.options)
    return None if effort is None else (_EFFORT, effort)


def _find_budget(
    value: JsonValue, request: Request, controls: Mapping[str, Control], provider: str
) -> tuple[str, JsonValue] | None:
    """Return the budget that corresponds to an effort."""
    control = controls.get(_BUDGET)
    if not isinstance(control, IntervalControl) or _BUDGET in request.controls:
        return None
    if value not in EFFORTS:
        return None
    tokens = 0 if value == "none" else _BUDGETS.get(str(value), _HIGHEST_BUDGET)
    if tokens and find_obstacle(request, provider):
        return None
    limit = request.controls.get("max_tokens", getattr(controls.get("max_tokens"), "default", None))
    if isinstance(limit, int):
        tokens = min(tokens, limit // 2)  # reasoning is part of the answer
    return None if tokens < (control.minimum or 0) else (_BUDGET, tokens)


def find_obstacle(request: Request, provider: str) -> str:
    """Return why a model with budgets rejects a budget in this request; empty if it accepts one.

    Anthropic rejects it together with sampling parameters, with a forced tool call, and within a
    turn that began without one: for example if the client has not sent the signed reasoning back.
    """
    if _SAMPLING & request.controls.keys():
        return "it does not accept a reasoning budget together with sampling parameters"
    if request.invocation_choice not in ("auto", "none"):
        return "it does not accept a reasoning budget if a tool must be called"
    if isinstance(request.canisters[-1], ResultCanister) and not _has_reasoned(request, provider):
        return "it does not accept a reasoning budget in a turn that began without signed reasoning"
    return ""


def _has_reasoned(request: Request, provider: str) -> bool:
    """Return whether the current turn has reasoning that the provider has signed."""
    for canister in reversed(request.canisters):
        if isinstance(canister, UserCanister):
            return False
        origin = canister.origin
        if origin is not None and origin.provider != provider:
            continue
        if any(isinstance(each, ReasoningContent) and each.signature for each in canister.content):
            return True
    return False


def explain(name: str, request: Request, attributes: ModelAttributes) -> str:
    """Return why an unsupported control has no alternative; empty if unknown."""
    if name != _EFFORT or attributes.access_control(_BUDGET) is None:
        return ""
    obstacle = find_obstacle(request, attributes.address.provider)
    return f"The model has a budget instead of an effort, and {obstacle}" if obstacle else ""
