"""Tools, tool choice and schemas in a client's request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.dialects.extras import collect_extras, without
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.dialects.generate_content.schemas import normalize_schema_form
from vibe_llms.dialects.generate_content.tables import JSON_TYPE
from vibe_llms.dialects.invocations import TakenNames
from vibe_llms.dialects.serving import describe_function, describe_own_tool, read_once
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Return the descriptions and the choice in a client's request."""
    fields = camelize(native)
    tools = fields.get("tools") or ()
    config = _find_choice_config(fields)
    enforced = str(config.get("mode", "")).upper() == "VALIDATED"
    invocables: list[InvocableDescription] = []
    taken_names = TakenNames()
    for tool in [tools] if isinstance(tools, Mapping) else tools:
        for kind, value in camelize(tool).items():
            if value is None:
                continue
            if kind == "functionDeclarations":
                descriptions = [_read_function(camelize(each), enforced) for each in value]
            else:
                # ``googleSearch`` becomes ``google_search``.
                name = "".join(f"_{each.lower()}" if each.isupper() else each for each in kind)
                descriptions = [describe_own_tool(PROTOCOL, {kind: value}, name, taken_names)]
            invocables += descriptions
            for description in descriptions:
                taken_names.add(description.name)
    functions = {each.name for each in invocables if each.schema is not None}
    return Translation((tuple(invocables), _read_choice(config, functions)))


@read_once
def _read_function(function: dict[str, Any], enforced: bool) -> InvocableDescription:
    extras = collect_extras(function, ("name", "description", "parametersJsonSchema", "parameters"))
    schema: JsonObject | None = function.get("parametersJsonSchema")
    if schema is None and function.get("parameters") is not None:
        schema = normalize_schema_form(function["parameters"])
    return describe_function(PROTOCOL, function, schema, extras, enforced=enforced)


def _find_choice_config(fields: Mapping[str, Any]) -> dict[str, Any]:
    tool_config = camelize(fields.get("toolConfig") or {})
    return camelize(tool_config.get("functionCallingConfig") or {})


def _read_choice(config: Mapping[str, Any], names: set[str]) -> str:
    allowed: Sequence[str] = config.get("allowedFunctionNames") or ()
    match str(config.get("mode", "")).upper():
        case "NONE":
            return "none"
        case "ANY" if len(allowed) == 1 and allowed[0] in names:  # we have no choice for several
            return str(allowed[0])
        case "ANY" if names:
            return "required"
    return "auto"


def find_allowed(native: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names of the functions that may be called, if the choice allows only some."""
    config = _find_choice_config(camelize(native))
    allowed = config.get("allowedFunctionNames")
    if not allowed or not isinstance(allowed, list):
        return None
    names = frozenset(map(str, allowed))
    # A single allowed function is a choice of that function, not a limit.
    is_single = _read_choice(config, {*names}) in allowed
    return None if is_single else names


def remove_choice(native: dict[str, Any], choice: str) -> dict[str, Any]:
    """Return a request's parameters without a choice that the common one represents fully."""
    config = _find_choice_config(native)
    if choice not in ("auto", "none", "required"):
        config.pop("allowedFunctionNames", None)
    if choice != "auto" or str(config.get("mode", "")).upper() == "VALIDATED":
        config.pop("mode", None)
    other_fields = without(camelize(native.get("toolConfig") or {}), "functionCallingConfig")
    if config:
        other_fields["functionCallingConfig"] = config
    return without(native, "toolConfig") | ({"toolConfig": other_fields} if other_fields else {})


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Return the schema in a client's request; ``None`` without one.

    A request for any JSON is kept as extras.
    """
    config = camelize(camelize(native).get("generationConfig") or {})
    if isinstance(config.get("responseJsonSchema"), Mapping):
        return Translation(config["responseJsonSchema"])
    if isinstance(config.get("responseSchema"), Mapping):
        return Translation(normalize_schema_form(config["responseSchema"]))
    return Translation(None)


def remove_schema(native: dict[str, Any]) -> dict[str, Any]:
    """Return a request's parameters without its schema.

    A schema for another format than JSON, such as an enumeration, is kept: it requires the older
    form.
    """
    config = camelize(native.get("generationConfig") or {})
    if config.get("responseJsonSchema") is None and config.get("responseSchema") is None:
        return native
    config.pop("responseJsonSchema", None)
    if config.get("responseMimeType", JSON_TYPE) == JSON_TYPE:
        config = without(config, "responseMimeType", "responseSchema")
    return {**native, "generationConfig": config}
