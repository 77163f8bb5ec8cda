"""Descriptions of invocables as tools, the choice among them, and schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from vibe_llms.dialects.extras import merge, without
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.generate_content.schemas import normalize_schema_form
from vibe_llms.dialects.generate_content.tables import JSON_TYPE
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.plain import JsonObject

_MODES: Final = {"none": "NONE", "required": "ANY"}


def nativize_invocables(
    invocables: Sequence[InvocableDescription],
    choice: str,
    quirks: Quirks | None = None,
    *,
    provider: str = "",
) -> Translation[JsonObject]:
    """Returns ``tools`` and ``toolConfig``; nothing where there are no invocables.

    Functions share one tool.
    """
    del quirks  # no vendor of this dialect has any of these
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    tools: list[dict[str, Any]] = []
    functions: list[dict[str, Any]] = []
    offered: list[InvocableDescription] = []
    for index, invocable in enumerate(invocables):
        path = f"invocables[{index}]"
        if invocable.schema is not None:
            if not functions:
                tools.append({"functionDeclarations": functions})
            functions.append(_write_function(invocable, path, ledger))
            offered.append(invocable)
        elif invocable.native is not None and invocable.native.protocol == PROTOCOL:
            tools.append(msgspec.json.decode(invocable.native.data))
        else:
            reason = f"{invocable.name} takes no arguments by a schema, and is not of this vendor"
            ledger.withhold(path, reason)
    native: dict[str, Any] = {"tools": tools} if tools else {}
    names = {invocable.name for invocable in offered}
    if choice not in ("auto", "none", *names) and (choice != "required" or not names):
        ledger.drop("invocation_choice", f"{choice}: no such function is offered to this vendor")
        choice = "auto"
    if tools:
        config = _write_choice(invocables, choice, ledger)
        if config:
            native["toolConfig"] = {"functionCallingConfig": config}
    return Translation(native, ledger.losses)


def _write_function(invocable: InvocableDescription, path: str, ledger: Ledger) -> dict[str, Any]:
    extras = ledger.open(invocable.native, path)
    native: dict[str, Any] = {"name": invocable.name, "description": invocable.description}
    if not invocable.description:
        del native["description"]
    native["parametersJsonSchema"] = invocable.schema
    return merge(native, extras)


def _write_choice(
    invocables: Sequence[InvocableDescription], choice: str, ledger: Ledger
) -> dict[str, Any]:
    functions = [invocable for invocable in invocables if invocable.schema is not None]
    enforced = [invocable for invocable in functions if invocable.enforced]
    if choice == "auto" and enforced and len(enforced) == len(functions):
        return {"mode": "VALIDATED"}
    if choice == "auto":
        for index, invocable in enumerate(invocables):
            if invocable.enforced and invocable.schema is not None:
                reason = "the vendor holds the model to the schemas of all functions or of none"
                ledger.coerce(f"invocables[{index}].enforced", reason)
        return {}
    if choice in _MODES:
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Returns the ``generationConfig`` which holds an answer to a schema."""
    if schema is None:
        return {}
    return {"generationConfig": {"responseMimeType": JSON_TYPE, "responseJsonSchema": schema}}


def restore_schema(native: dict[str, Any], schema: JsonObject | None) -> dict[str, Any]:
    """Returns a body whose schema is in the older form, where it has to be and says the same."""
    config = dict(native.get("generationConfig") or {})
    older = config.pop("responseSchema", None)
    if older is None:
        return native
    if schema is not None and normalize_schema_form(older) == schema:
        config = {**without(config, "responseJsonSchema"), "responseSchema": older}
    return {**native, "generationConfig": config}
