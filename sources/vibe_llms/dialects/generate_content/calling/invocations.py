"""Descriptions of invocables as tools, the tool choice, and schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import merge, without
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks, read_generation
from vibe_llms.dialects.generate_content.schemas import normalize_schema_form
from vibe_llms.dialects.generate_content.tables import JSON_TYPE
from vibe_llms.dialects.invocations import (
    InvocablesWriter,
    Offer,
    allows_any_object,
    describe,
    write_parameters,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription

GEMINI: Final = "gemini"
_FIRST_GENERATION: Final = 3
_MODES: Final = {"none": "NONE", "required": "ANY"}


def _write_tool(
    invocable: InvocableDescription, path: str, quirks: Quirks, ledger: Ledger
) -> dict[str, Any] | None:
    if invocable.schema is None:
        reason = f"{invocable.name} has no schema, and is not a tool of this vendor"
        ledger.withhold(path, reason)
        return None
    function = {"name": invocable.name, **describe(invocable)}
    extras = ledger.read_sendable(invocable.native, path)
    function["parametersJsonSchema"] = write_parameters(invocable, extras)
    return merge(function, extras)


def _compose(offer: Offer) -> dict[str, Any]:
    """Return ``tools``, in which functions share one entry, and ``toolConfig``."""
    native: list[dict[str, Any]] = []
    functions = [tool for tool in offer.tools.values() if _is_function(tool)]
    for tool in offer.tools.values():
        if not _is_function(tool):
            native.append(tool)
        elif tool is functions[0]:
            native.append({"functionDeclarations": functions})
    config = _write_choice(offer) if native else {}
    tool_config: dict[str, Any] = {"functionCallingConfig": config} if config else {}
    if _shows_executions(offer):
        tool_config["includeServerSideToolInvocations"] = True
    choice = {"toolConfig": tool_config} if tool_config else {}
    return ({"tools": native} if native else {}) | choice


def _shows_executions(offer: Offer) -> bool:
    """Return whether to ask for the calls of server tools, and to allow functions beside them.

    The Gemini API has this option since Gemini 3:
    https://ai.google.dev/gemini-api/docs/generate-content/tool-combination (read 2026-11-29).
    """
    service = getattr(offer.quirks, "server_tools", GEMINI)
    if service != GEMINI or (read_generation(offer.model) or 0) < _FIRST_GENERATION:
        return False
    return any(
        each.server_tool is not None
        and each.name in offer.tools
        and not offer.ledger.admits(each.native)
        for each in offer.invocables
    )


def _is_function(tool: Mapping[str, Any]) -> bool:
    return "parametersJsonSchema" in tool


def _write_choice(offer: Offer) -> dict[str, Any]:
    if offer.choice in _MODES:
        return {"mode": _MODES[offer.choice]}
    if offer.choice != "auto":
        return {"mode": "ANY", "allowedFunctionNames": [offer.choice]}
    functions = [
        (index, invocable)
        for index, invocable in enumerate(offer.invocables)
        if invocable.schema is not None
    ]
    enforced = [index for index, invocable in functions if invocable.enforced]
    if enforced and len(enforced) == len(functions):
        return {"mode": "VALIDATED"}
    for index in enforced:
        reason = "the vendor enforces the schemas of all functions, or of none"
        offer.ledger.coerce(f"invocables[{index}].enforced", reason)
    return {}


nativize_invocables = InvocablesWriter(
    PROTOCOL, _write_tool, _compose, _is_function, service=GEMINI
).nativize


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Return the ``generationConfig`` that constrains an answer to a schema."""
    if schema is None:
        return {}
    if allows_any_object(schema):  # with such a schema the vendor's models return an empty object
        return {"generationConfig": {"responseMimeType": JSON_TYPE}}
    return {"generationConfig": {"responseMimeType": JSON_TYPE, "responseJsonSchema": schema}}


def restore_schema(native: dict[str, Any], schema: JsonObject | None) -> dict[str, Any]:
    """Return a body without a ``responseSchema`` that contradicts the schema of the request.

    If both mean the same, ``responseSchema`` (the older form) replaces ``responseJsonSchema``.
    """
    config = dict(native.get("generationConfig") or {})
    older = config.pop("responseSchema", None)
    if older is None:
        return native
    if schema is not None and normalize_schema_form(older) == schema:
        config = {**without(config, "responseJsonSchema"), "responseSchema": older}
    return {**native, "generationConfig": config}
