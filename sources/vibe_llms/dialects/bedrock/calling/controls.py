"""Translation of controls to parameters of a request.

The parameters that all models have are fields of the protocol; others are the model's own fields.
Thinking of Anthropic's models has the same parameters as in Messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.bedrock.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.bedrock.tables import MODEL_FIELDS, PLACES
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.request_paths import put
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
        path = f"controls.{name}"
        match name:
            case "reasoning_effort":
                _write_effort(body, str(value), attributes, ledger)
            case "reasoning_budget_tokens":
                if controls.get("reasoning_effort") == "none":
                    ledger.drop(path, "reasoning is switched off")
                    continue
                put(body, PLACES[name], value)
                put(body, (MODEL_FIELDS, "thinking", "type"), "enabled")
            case "parallel_invocations" | "reasoning_summary":
                ledger.drop(path, "this protocol has no such parameter")
            case _:
                put(body, PLACES.get(name, (MODEL_FIELDS, name)), value)
    return Translation(body, ledger.losses)


def _write_effort(
    body: dict[str, Any], value: str, attributes: ModelAttributes, ledger: Ledger
) -> None:
    thinking = (MODEL_FIELDS, "thinking")
    if value == "none":
        put(body, thinking, {"type": "disabled"})
        return
    if value == "minimal":
        ledger.coerce("controls.reasoning_effort", "minimal is sent as low, the lowest level")
        value = "low"
    put(body, PLACES["reasoning_effort"], value)
    if thinks_adaptively(attributes):
        put(body, thinking, {"type": "adaptive"})


def thinks_adaptively(attributes: ModelAttributes) -> bool:
    """Return whether a model itself decides how much to think."""
    return attributes.access_capability("supports_adaptive_reasoning") is Capability.YES
