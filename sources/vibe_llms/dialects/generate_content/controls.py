"""Control values as ``generationConfig``, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.exceptions import ControlError
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.models.controls import Control, check_control, check_controls
from vibe_llms.plain import JsonObject, JsonValue

FIELDS: Final = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
"""From the name of a control to its field of ``generationConfig``."""

THINKING_FIELDS: Final = {
    "reasoning_budget_tokens": "thinkingBudget",
    "reasoning_effort": "thinkingLevel",
}
TOP_FIELDS: Final = {"service_tier": "serviceTier"}

_LEVELS: Final = frozenset({"minimal", "low", "medium", "high", "xhigh"})


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Returns ``generationConfig``, and what stands beside it; nothing where nothing is set.

    Raises:
        ControlError: The model has no such control, or the value is outside its domain.
    """
    ledger = Ledger(protocol=PROTOCOL)
    config: dict[str, Any] = {}
    thinking: dict[str, Any] = {}
    native: dict[str, Any] = {}
    for name, value in check_controls(controls, attributes.controls).items():
        if name == "reasoning_effort":
            _set_effort(str(value), thinking, ledger)
        elif name in THINKING_FIELDS:
            thinking[THINKING_FIELDS[name]] = value
        elif name in TOP_FIELDS:
            native[TOP_FIELDS[name]] = value
        elif name == "parallel_invocations":
            if not value:
                ledger.drop(f"controls.{name}", "several calls at once cannot be forbidden here")
        else:
            config[FIELDS.get(name, name)] = value
    if quirks.shows_thoughts and _thinks(thinking, attributes):
        thinking["includeThoughts"] = True
    if thinking:
        config["thinkingConfig"] = thinking
    if config:
        native["generationConfig"] = config
    return Translation(native, ledger.losses)


def _set_effort(effort: str, thinking: dict[str, Any], ledger: Ledger) -> None:
    path = "controls.reasoning_effort"
    if effort in _LEVELS:
        thinking["thinkingLevel"] = effort
    elif effort == "none":
        thinking["thinkingBudget"] = 0
        ledger.coerce(path, "no effort goes as a budget of no tokens")
    else:
        thinking["thinkingLevel"] = "xhigh"
        ledger.coerce(path, f"{effort!r} goes as 'xhigh': there is nothing above it")


def _thinks(thinking: Mapping[str, Any], attributes: ModelAttributes) -> bool:
    if thinking.get("thinkingBudget") == 0:
        return False
    return bool(thinking) or attributes.access_capability("supports_reasoning") is Capability.YES


def normalize_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Returns the control values in a request; what is no control is left to its residue.

    Args:
        attributes: Of the model that shall be asked: a control that it has not is none. Without
            them all that the dialect knows are taken.
    """
    top = camelize(native)
    config = camelize(top.get("generationConfig") or {})
    thinking = camelize(config.get("thinkingConfig") or {})
    sources = ((FIELDS, config), (THINKING_FIELDS, thinking), (TOP_FIELDS, top))
    controls: dict[str, JsonValue] = {}
    for table, fields in sources:
        for name, field in table.items():
            value = fields.get(field)
            if name == "reasoning_effort":
                value = str(value).lower()
                if value not in _LEVELS:
                    continue
            # A budget of -1 lets the model choose, and there is no common word for that.
            if value is not None and _fits(name, value, attributes):
                controls[name] = value
    return Translation(controls)


def _fits(name: str, value: Any, attributes: ModelAttributes | None) -> bool:
    """Tells whether a value can be that of a control."""
    control = attributes.access_control(name) if attributes else _access_common_control(name)
    if control is None:
        return False
    try:
        check_control(control, value)
    except ControlError:
        return False
    return True


def _access_common_control(name: str) -> Control:
    from vibe_llms.models.definitions import produce_control
    from vibe_llms.models.keys import KEYS_BY_NAME

    return produce_control(name, KEYS_BY_NAME[name].definition)


def remove_controls(native: dict[str, Any], controls: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Returns a request's parameters without those which have become controls."""
    rest = dict(native)
    config = camelize(rest.pop("generationConfig", None) or {})
    thinking = camelize(config.pop("thinkingConfig", None) or {})
    for name in controls:
        for table, fields in ((FIELDS, config), (THINKING_FIELDS, thinking), (TOP_FIELDS, rest)):
            if name in table:
                fields.pop(table[name], None)
    if thinking:
        config["thinkingConfig"] = thinking
    if config:
        rest["generationConfig"] = config
    return rest
