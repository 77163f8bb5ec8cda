"""What comes nearest to a wish that a model does not take: another value, or another control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.messages.requests import Request
from vibe_llms.models.controls import Control, IntervalControl, OptionsControl, SequenceControl
from vibe_llms.plain import JsonValue

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""From the least reasoning to the most."""

_EFFORT: Final = "reasoning_effort"
_BUDGET: Final = "reasoning_budget_tokens"
_BUDGETS: Final = {"minimal": 1_024, "low": 1_024, "medium": 8_192}
_MOST: Final = 24_576
"""What Google itself makes of an effort for models that have budgets, of more than medium this:
https://ai.google.dev/gemini-api/docs/openai#thinking (read 2026-11-26)."""

_SAMPLING: Final = frozenset({"temperature", "top_k", "top_p"})


def find_nearest(
    name: str, request: Request, controls: Mapping[str, Control]
) -> tuple[str, JsonValue] | None:
    """Returns a control and a value that the model may take; ``None`` where nothing is near.

    Args:
        name: Of a control in the request which the model does not have, or not with this value.
        controls: What the model takes, by their names.
    """
    value, control = request.controls[name], controls.get(name)
    match control:
        case OptionsControl():
            effort = _choose_effort(value, control.options)
            return None if effort is None else (name, effort)
        case SequenceControl(maximum_items=int() as most) if isinstance(value, (list, tuple)):
            return name, list(value[:most])
        case IntervalControl(maximum=int() | float() as bound) if _exceeds(value, bound):
            return name, bound
        case None if name == _BUDGET:
            return _find_effort(value, request, controls)
        case None if name == _EFFORT:
            return _find_budget(value, request, controls)
    return None


def _choose_effort(value: JsonValue, options: Sequence[JsonValue]) -> str | None:
    """Returns the most effort that is no more than what is wished for, or else the least."""
    if not isinstance(value, str) or value not in EFFORTS:
        return None
    if value in options:
        return value
    some = [each for each in EFFORTS if each in options and each != "none"]
    less = [each for each in some if EFFORTS.index(each) < EFFORTS.index(value)]
    return less[-1] if less else next(iter(some), None)


def _exceeds(value: JsonValue, bound: float) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and isinstance(value, (int, float)) and value > bound


def _find_effort(
    value: JsonValue, request: Request, controls: Mapping[str, Control]
) -> tuple[str, JsonValue] | None:
    control = controls.get(_EFFORT)
    if not isinstance(control, OptionsControl) or _EFFORT in request.controls:
        return None
    if not isinstance(value, int) or value < 0:  # less than nothing is as the model likes
        return None
    fitting = (each for each in ("low", "medium") if value < 2 * _BUDGETS[each])
    effort = _choose_effort("none" if value == 0 else next(fitting, "high"), control.options)
    return None if effort is None else (_EFFORT, effort)


def _find_budget(
    value: JsonValue, request: Request, controls: Mapping[str, Control]
) -> tuple[str, JsonValue] | None:
    control = controls.get(_BUDGET)
    if not isinstance(control, IntervalControl) or _BUDGET in request.controls:
        return None
    if value not in EFFORTS:
        return None
    tokens = 0 if value == "none" else _BUDGETS.get(str(value), _MOST)
    if tokens and not _may_begin_to_reason(request):
        return None
    limit = request.controls.get("max_tokens", getattr(controls.get("max_tokens"), "default", None))
    if isinstance(limit, int):
        tokens = min(tokens, limit // 2)  # it is part of the answer
    return None if tokens < (control.minimum or 0) else (_BUDGET, tokens)


def _may_begin_to_reason(request: Request) -> bool:
    """Tells whether a model with budgets takes one beside what else is asked for.

    Anthropic refuses it beside settings of sampling, where a tool must be called, and in the midst
    of a turn which began without, as one does whose client has sent no signed reasoning back.
    """
    return (
        not _SAMPLING & request.controls.keys()
        and request.invocation_choice in ("auto", "none")
        and not isinstance(request.canisters[-1], ResultCanister)
    )
