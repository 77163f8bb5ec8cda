"""Tools, tool choice and schemas in a client's request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.dialects.extras import leave, without
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.dialects.generate_content.schemas import normalize_schema_form
from vibe_llms.dialects.generate_content.tables import JSON_TYPE
from vibe_llms.dialects.invocations import TakenNames
from vibe_llms.dialects.serving import describe_function, describe_own_tool
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Return the descriptions and the choice in a client's request."""
    fields = camelize(native)
    tools = fields.get("tools") or ()
    given = _access_choice(fields)
    enforced = str(given.get("mode", "")).upper() == "VALIDATED"
    invocables: list[InvocableDescription] = []
    taken = TakenNames()
    for tool in [tools] if isinstance(tools, Mapping) else tools:
        for kind, value in camelize(tool).items():
            if value is None:
                continue
            if kind == "functionDeclarations":
                read = [_read_function(camelize(each), enforced=enforced) for each in value]
            else:
                # ``googleSearch`` is ``google_search``.
                plain = "".join(f"_{each.lower()}" if each.isupper() else each for each in kind)
                read = [describe_own_tool(PROTOCOL, {kind: value}, plain, taken)]
            invocables += read
            for each in read:
                taken.add(each.name)
    functions = {each.name for each in invocables if each.schema is not None}
    return Translation((tuple(invocables), _read_choice(given, functions)))


def _read_function(function: dict[str, Any], *, enforced: bool) -> InvocableDescription:
    extras = leave(function, ("name", "description", "parametersJsonSchema", "parameters"))
    schema: JsonObject | None = function.get("parametersJsonSchema")
    if schema is None and function.get("parameters") is not None:
        schema = normalize_schema_form(function["parameters"])
    return describe_function(PROTOCOL, function, schema, extras, enforced=enforced)


def _access_choice(fields: Mapping[str, Any]) -> dict[str, Any]:
    config = camelize(fields.get("toolConfig") or {})
    return camelize(config.get("functionCallingConfig") or {})


def _read_choice(given: Mapping[str, Any], names: set[str]) -> str:
    allowed: Sequence[str] = given.get("allowedFunctionNames") or ()
    match str(given.get("mode", "")).upper():
        case "NONE":
            return "none"
        case "ANY" if len(allowed) == 1 and allowed[0] in names:  # there is no choice for several
            return str(allowed[0])
        case "ANY" if names:
            return "required"
    return "auto"


def find_allowed(native: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names of the functions that may be called, if the choice allows only some."""
    given = _access_choice(camelize(native))
    allowed = given.get("allowedFunctionNames")
    if not allowed or not isinstance(allowed, list):
        return None
    is_one = _read_choice(given, {*map(str, allowed)}) in allowed  # which is a choice of its own
    return None if is_one else frozenset(map(str, allowed))


def remove_choice(native: dict[str, Any], choice: str) -> dict[str, Any]:
    """Return a request's parameters without a choice that the common one represents fully."""
    given = _access_choice(native)
    if choice not in ("auto", "none", "required"):
        given.pop("allowedFunctionNames", None)
    if choice != "auto" or str(given.get("mode", "")).upper() == "VALIDATED":
        given.pop("mode", None)
    rest = without(camelize(native.get("toolConfig") or {}), "functionCallingConfig")
    if given:
        rest["functionCallingConfig"] = given
    return without(native, "toolConfig") | ({"toolConfig": rest} if rest else {})


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
