"""Control values as parameters of a request, and back.

How hard a model thinks is said here in three ways: by the effort, by a budget, and by whether it
thinks at all. Where the data of a model say ``supports_adaptive_reasoning``, to ask for an effort
is to let it think. A summary that is asked for with ``auto`` is what the vendor calls summarized.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.residues import merge
from vibe_llms.exceptions import ControlError
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.models.controls import check_control, check_controls
from vibe_llms.plain import JsonObject, JsonValue

SAMPLING_FIELDS: Final = ("temperature", "top_p", "top_k")
"""What newer models, and the newest version of the protocol, do not take any more."""

_SAME_NAME: Final = (*SAMPLING_FIELDS, "max_tokens", "service_tier")
_OTHER_NAME: Final = {"stop": "stop_sequences"}
_DISPLAYS: Final = {"auto": "summarized"}
_SUMMARIES: Final = {display: value for value, display in _DISPLAYS.items()}


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Returns the parameters; a control that only a model's data know goes by its own name.

    Raises:
        ControlError: The model has no such control, or the value is outside its domain.
    """
    del quirks  # no vendor of this dialect has any of these
    ledger = Ledger(protocol=PROTOCOL)
    body: dict[str, Any] = {}
    for name, value in check_controls(controls, attributes.controls).items():
        match name:
            case "reasoning_effort":
                body = merge(body, _write_effort(value, attributes, ledger))
            case "reasoning_budget_tokens":
                if controls.get("reasoning_effort") == "none":
                    ledger.drop(f"controls.{name}", "the model is not to think at all")
                    continue
                budget = {"type": "enabled", "budget_tokens": value}
                body = merge(body, {"thinking": budget})
            case "reasoning_summary":
                shown = {"type": "adaptive", "display": _DISPLAYS.get(str(value), value)}
                body["thinking"] = merge(shown, body.get("thinking", {}))
            case "parallel_invocations":
                body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": not value}
            case _:
                body[_OTHER_NAME.get(name, name)] = value
    return Translation(body, ledger.losses)


def _write_effort(value: JsonValue, attributes: ModelAttributes, ledger: Ledger) -> dict[str, Any]:
    if value == "none":
        return {"thinking": {"type": "disabled"}}
    if value == "minimal":
        ledger.coerce("controls.reasoning_effort", "minimal goes as low, the least there is")
        value = "low"
    body: dict[str, Any] = {"output_config": {"effort": value}}
    if _thinks_adaptively(attributes):
        body["thinking"] = {"type": "adaptive"}
    return body


def normalize_controls(
    parameters: JsonObject, attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Returns the control values in a request; nothing is lost, for the rest stays native.

    Args:
        attributes: Of the model that will be asked; a parameter becomes a control where the
            model has it. Without them all that there are here do.
    """
    return Translation(take_controls(dict(parameters), attributes))


def take_controls(
    rest: dict[str, Any], attributes: ModelAttributes | None = None
) -> dict[str, JsonValue]:
    """Takes the parameters that are controls out of a request, and returns the controls."""
    taken: dict[str, JsonValue] = {}
    for name in (*_SAME_NAME, *_OTHER_NAME):
        field = _OTHER_NAME.get(name, name)
        if rest.get(field) is not None and _admits(name, rest[field], attributes):
            taken[name] = rest.pop(field)
    if rest.get("tools"):
        disabled = _peek(rest, "tool_choice", "disable_parallel_tool_use")
        if isinstance(disabled, bool) and _admits("parallel_invocations", True, attributes):
            _take(rest, "tool_choice", "disable_parallel_tool_use")
            taken["parallel_invocations"] = not disabled
    return taken | _take_reasoning(rest, attributes)


def _take_reasoning(
    rest: dict[str, Any], attributes: ModelAttributes | None
) -> dict[str, JsonValue]:
    taken: dict[str, JsonValue] = {}
    kind = _peek(rest, "thinking", "type")
    budget = _peek(rest, "thinking", "budget_tokens")
    effort = _peek(rest, "output_config", "effort")
    adaptive = attributes is not None and _thinks_adaptively(attributes)
    if kind == "enabled" and _admits("reasoning_budget_tokens", budget, attributes):
        _take(rest, "thinking", "type", "budget_tokens")
        taken["reasoning_budget_tokens"] = budget
    if isinstance(effort, str) and _admits("reasoning_effort", effort, attributes):
        if adaptive and kind == "adaptive":
            _take(rest, "thinking", "type")
        if not adaptive or kind == "adaptive":
            _take(rest, "output_config", "effort")
            taken["reasoning_effort"] = effort
    elif effort is None and kind == "disabled" and _admits("reasoning_effort", "none", attributes):
        _take(rest, "thinking", "type")
        taken["reasoning_effort"] = "none"
    return taken | _take_summary(rest, attributes)


def _take_summary(rest: dict[str, Any], attributes: ModelAttributes | None) -> dict[str, JsonValue]:
    display = _peek(rest, "thinking", "display")
    value = _SUMMARIES.get(str(display), display)
    if display is None or not _admits("reasoning_summary", value, attributes):
        return {}
    _take(rest, "thinking", "display")
    return {"reasoning_summary": value}


def _thinks_adaptively(attributes: ModelAttributes) -> bool:
    return attributes.access_capability("supports_adaptive_reasoning") is Capability.YES


def _admits(name: str, value: Any, attributes: ModelAttributes | None) -> bool:
    """Tells whether a value may go as a control; what a model does not have stays as it is."""
    if attributes is None:
        return _KINDS[name](value)
    control = attributes.access_control(name)
    if control is None:
        return False
    try:
        check_control(control, value)
    except ControlError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


_KINDS: Final = {
    "max_tokens": _is_count,
    "parallel_invocations": _is_truth,
    "reasoning_budget_tokens": _is_count,
    "reasoning_effort": _is_text,
    "reasoning_summary": _is_text,
    "service_tier": _is_text,
    "stop": _is_list,
    "temperature": _is_number,
    "top_k": _is_count,
    "top_p": _is_number,
}


def _peek(rest: Mapping[str, Any], group: str, name: str) -> Any:
    fields = rest.get(group)
    return fields.get(name) if isinstance(fields, Mapping) else None


def _take(rest: dict[str, Any], group: str, *names: str) -> None:
    """Takes fields out of an object within; an object that is left empty goes, too."""
    left = {name: value for name, value in rest[group].items() if name not in names}
    if left:
        rest[group] = left
    else:
        del rest[group]
