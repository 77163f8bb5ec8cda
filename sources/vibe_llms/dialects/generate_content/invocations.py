"""Descriptions of invocables as tools, the choice among them, and schemas; both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.generate_content.schemas import normalize_schema_form
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.residues import keep_native, leave, merge, seal_native, without
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.plain import JsonObject

NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}}
"""The schema of a function that takes none."""

_JSON: Final = "application/json"
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
    residue = ledger.open(invocable.native, path)
    native: dict[str, Any] = {"name": invocable.name, "description": invocable.description}
    if not invocable.description:
        del native["description"]
    native["parametersJsonSchema"] = invocable.schema
    return merge(native, residue)


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


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Returns the descriptions and the choice in a client's request."""
    fields = camelize(native)
    tools = fields.get("tools") or ()
    given = _access_choice(fields)
    enforced = str(given.get("mode", "")).upper() == "VALIDATED"
    invocables: list[InvocableDescription] = []
    names: set[str] = set()
    for tool in [tools] if isinstance(tools, Mapping) else tools:
        for kind, value in camelize(tool).items():
            if kind == "functionDeclarations":
                read = [_read_function(camelize(each), enforced=enforced) for each in value]
            else:
                name = next(name for name in _derive_names(kind) if name not in names)
                read = [
                    InvocableDescription(
                        name=name,
                        description="",
                        schema=None,
                        native=seal_native(PROTOCOL, {kind: value}),
                    )
                ]
            invocables += read
            names |= {each.name for each in read}
    functions = {each.name for each in invocables if each.schema is not None}
    return Translation((tuple(invocables), _read_choice(given, functions)))


def _derive_names(kind: str) -> Any:
    """Yields names for a vendor's own tool: ``googleSearch`` is ``google_search``."""
    plain = "".join(f"_{each.lower()}" if each.isupper() else each for each in kind)
    yield plain
    number = 2
    while True:
        yield f"{plain}_{number}"
        number += 1


def _read_function(function: dict[str, Any], *, enforced: bool) -> InvocableDescription:
    residue = leave(function, "name", "description", "parametersJsonSchema", "parameters")
    schema: JsonObject | None = function.get("parametersJsonSchema")
    if schema is None and function.get("parameters") is not None:
        schema = normalize_schema_form(function["parameters"])
    elif schema is None:
        schema = NO_ARGUMENTS
    description = function.get("description") or ""
    # A description is ours to demand, not the vendor's: a native vouches for its absence.
    keep = keep_native if description.strip() else seal_native
    return InvocableDescription(
        name=function["name"],
        description=description,
        schema=schema,
        enforced=enforced,
        native=keep(PROTOCOL, residue),
    )


def _access_choice(fields: Mapping[str, Any]) -> dict[str, Any]:
    config = camelize(fields.get("toolConfig") or {})
    return camelize(config.get("functionCallingConfig") or {})


def _read_choice(given: Mapping[str, Any], names: set[str]) -> str:
    allowed: Sequence[str] = given.get("allowedFunctionNames") or ()
    match str(given.get("mode", "")).upper():
        case "NONE":
            return "none"
        case "ANY" if len(allowed) == 1 and allowed[0] in names:
            return str(allowed[0])
        case "ANY" if names:
            return "required"
    return "auto"


def remove_choice(native: dict[str, Any], choice: str) -> dict[str, Any]:
    """Returns a request's parameters without the choice, where a common word says all of it."""
    given = _access_choice(native)
    if choice not in ("auto", "none", "required"):
        given.pop("allowedFunctionNames", None)
    if choice != "auto" or str(given.get("mode", "")).upper() == "VALIDATED":
        given.pop("mode", None)
    rest = without(camelize(native.get("toolConfig") or {}), "functionCallingConfig")
    if given:
        rest["functionCallingConfig"] = given
    return without(native, "toolConfig") | ({"toolConfig": rest} if rest else {})


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Returns the ``generationConfig`` which holds an answer to a schema."""
    if schema is None:
        return {}
    return {"generationConfig": {"responseMimeType": _JSON, "responseJsonSchema": schema}}


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Returns the schema in a client's request, ``None`` where there is none.

    A request for JSON of any form is left to its residue.
    """
    config = camelize(camelize(native).get("generationConfig") or {})
    if isinstance(config.get("responseJsonSchema"), Mapping):
        return Translation(config["responseJsonSchema"])
    if isinstance(config.get("responseSchema"), Mapping):
        return Translation(normalize_schema_form(config["responseSchema"]))
    return Translation(None)


def remove_schema(native: dict[str, Any]) -> dict[str, Any]:
    """Returns a request's parameters without its schema.

    One whose answer is no JSON, as of an enumeration, stays: it goes in the older form alone.
    """
    config = camelize(native.get("generationConfig") or {})
    if config.get("responseJsonSchema") is None and config.get("responseSchema") is None:
        return native
    config.pop("responseJsonSchema", None)
    if config.get("responseMimeType", _JSON) == _JSON:
        config = without(config, "responseMimeType", "responseSchema")
    return {**native, "generationConfig": config}


def restore_schema(native: dict[str, Any], schema: JsonObject | None) -> dict[str, Any]:
    """Returns a body whose schema is in the older form, where it has to be and says the same."""
    config = dict(native.get("generationConfig") or {})
    older = config.pop("responseSchema", None)
    if older is None:
        return native
    if schema is not None and normalize_schema_form(older) == schema:
        config = {**without(config, "responseJsonSchema"), "responseSchema": older}
    return {**native, "generationConfig": config}
