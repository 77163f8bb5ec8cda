"""Translation of controls to parameters of a request.

Thinking has three parameters: the effort, a budget, and whether to think at all. For a model with
``supports_adaptive_reasoning``, requesting an effort also turns thinking on. The vendor's name of
the summary ``auto`` is ``summarized``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.messages.tables import OTHER_NAMES, SUMMARY_DISPLAYS
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.models.controls import check_controls


def nativize_controls(
    controls: Mapping[str, JsonValue], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Return the parameters; a control that only a model's attributes define keeps its name.

    Raises:
        ControlError: The model does not have the control, or the value is invalid.
    """
    del quirks  # no vendor of this dialect has quirks
    ledger = Ledger(protocol=PROTOCOL)
    body: dict[str, Any] = {}
    for name, value in check_controls(controls, attributes.controls).items():
        match name:
            case "reasoning_effort":
                body = merge(body, _write_effort(value, attributes, ledger))
            case "reasoning_budget_tokens":
                if controls.get("reasoning_effort") == "none":
                    ledger.drop(f"controls.{name}", "reasoning is switched off")
                    continue
                budget = {"type": "enabled", "budget_tokens": value}
                body = merge(body, {"thinking": budget})
            case "reasoning_summary":
                display = SUMMARY_DISPLAYS.get(str(value), value)
                summarized = {"type": "adaptive", "display": display}
                # Parameters from before, such as a budget, override adaptive thinking.
                body["thinking"] = merge(summarized, body.get("thinking", {}))
            case "parallel_invocations":
                body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": not value}
            case _:
                body[OTHER_NAMES.get(name, name)] = value
    return Translation(body, ledger.losses)


def _write_effort(value: JsonValue, attributes: ModelAttributes, ledger: Ledger) -> dict[str, Any]:
    if value == "none":
        return {"thinking": {"type": "disabled"}}
    if value == "minimal":
        ledger.coerce("controls.reasoning_effort", "minimal is sent as low, the lowest level")
        value = "low"
    body: dict[str, Any] = {"output_config": {"effort": value}}
    if thinks_adaptively(attributes):
        body["thinking"] = {"type": "adaptive"}
    return body


def thinks_adaptively(attributes: ModelAttributes) -> bool:
    """Return whether a model itself decides how much to think."""
    return attributes.access_capability("supports_adaptive_reasoning") is Capability.YES
