"""Control values as ``generationConfig``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.generate_content.tables import FIELDS, LEVELS, THINKING_FIELDS, TOP_FIELDS
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.models.controls import check_controls
from vibe_llms.plain import JsonObject, JsonValue


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
    if effort in LEVELS:
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
