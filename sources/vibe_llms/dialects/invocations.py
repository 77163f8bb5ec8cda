"""Shared parts of the translation of invocables: arguments, tools and schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.extras import AS_IT_IS, BODY, join_fields, read_native, without, write_json
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.server_tools import NO_TOOL

BROKEN_ARGUMENTS: Final = "INVALID_JSON"
"""Key for arguments that are not a JSON object, as Anthropic's documentation proposes:
https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/fine-grained-tool-streaming
"""

_EMPTY_ARGUMENTS: Final = ("", "null", '""')


def write_arguments(canister: InvocationCanister, protocol: str) -> str:
    """Return the text of the arguments, as the model wrote it.

    Empty arguments of another protocol become an empty object, as not every vendor accepts the
    other spellings.
    """
    arguments = canister.arguments
    if arguments in _EMPTY_ARGUMENTS and canister.form == "json":
        origin = canister.origin
        if origin is not None and origin.protocol != protocol:
            return "{}"
    return arguments


def write_object(canister: InvocationCanister, path: str, ledger: Ledger) -> str:
    """Return the arguments as an object, for servers that parse earlier calls again.

    Such a server rejects the whole request if the arguments of one call are invalid. Empty
    arguments become an empty object; invalid ones are sent as text within an object. The result of
    the call explains the error to the model.
    """
    text = canister.arguments
    if holds_object(text):
        return text
    if canister.fault is None:
        return "{}"
    reason = f"{canister.fault}; they are sent as text in the field {BROKEN_ARGUMENTS}"
    ledger.coerce(f"{path}.arguments", reason)
    return write_json({BROKEN_ARGUMENTS: text})


def holds_object(text: str) -> bool:
    """Return whether a text is a JSON object."""
    import msgspec  # imported only here, as most conversations have no calls

    from vibe_llms.foundation.json_errors import UNREADABLE

    try:
        return isinstance(msgspec.json.decode(text), dict)
    except UNREADABLE:
        return False


_PROTOCOLS_WITH_CUSTOM_TOOLS: Final = frozenset({"chat_completions", "responses"})
"""Protocols with custom tools, which take free text. In any other protocol, an invocable without a
schema is a tool of that protocol's vendor, which other vendors do not know and this library does
not execute.
"""


def is_vendors_own(invocable: InvocableDescription) -> bool:
    """Return whether the native data of an invocable are a complete tool instead of extras.

    Raises:
        RequestError: They are not a JSON object.
    """
    native = invocable.native
    if native is None:
        return invocable.server_tool is not None and invocable.schema is None
    fields = read_native(native, "the description of an invocable")
    if native.protocol not in _PROTOCOLS_WITH_CUSTOM_TOOLS:
        return invocable.schema is None or fields.get("type") not in (None, "custom")
    return "type" in fields


def wrap_own_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return native data for a vendor's own tool. The field ``type`` marks the tool as complete."""
    return {"type": None, **tool}


def unwrap_own_tool(native_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tool for the native data made by :func:`wrap_own_tool`."""
    return (
        dict(native_fields)
        if native_fields.get("type") is not None
        else without(native_fields, "type")
    )


@frozen
class Offer:
    """The tools of a request.

    Attributes:
        tools: The tools in the vendor's format, by the names of the invocables.
        choice: A valid choice: ``none``, ``auto``, the name of a tool, or ``required`` if there are
            tools.
        invocables: All invocables, including those that the vendor does not support.
        quirks: The vendor's quirks, in the dialect's class for them.
        ledger: Records losses.
        model: The name of the model; empty if it is unknown.
    """

    tools: dict[str, dict[str, Any]]
    choice: str
    invocables: Sequence[InvocableDescription]
    quirks: Any
    ledger: Ledger
    model: str = ""


@frozen
class InvocablesWriter:
    """Writes the tools and the tool choice in one dialect.

    Attributes:
        protocol: The dialect.
        write_tool: Makes the tool of an invocable that is not a vendor's own; ``None``, with a
            loss, if it is not supported. Takes the invocable, its path, the quirks and the ledger.
        compose: Puts tools and choice into the fields of a request.
        can_be_chosen: Whether the choice can name a tool.
        mark_tool: Adds a cache mark to a tool, if tools can have one. Takes the tool, the hint, its
            path, the quirks and the ledger.
        service: The service whose server tools are written; the quirk ``server_tools`` overrides
            it.
    """

    protocol: str
    write_tool: Callable[[InvocableDescription, str, Any, Ledger], dict[str, Any] | None]
    compose: Callable[[Offer], dict[str, Any]]
    can_be_chosen: Callable[[Mapping[str, Any]], bool] = bool
    mark_tool: Callable[[dict[str, Any], CacheHint, str, Any, Ledger], dict[str, Any]] | None = None
    service: str = ""

    def nativize(
        self,
        invocables: Sequence[InvocableDescription],
        choice: str,
        quirks: Any = None,
        *,
        provider: str = "",
        model: str = "",
    ) -> Translation[JsonObject]:
        """Return the tools and the choice; empty without invocables.

        Args:
            model: The name of the model, on which server tools may depend.

        Raises:
            RequestError: The native data of an invocable are invalid, or a server tool lacks an
                option that the vendor needs.
        """
        if not invocables and choice == "auto":
            return Translation({})
        ledger = Ledger(protocol=self.protocol, provider=provider)
        tools: dict[str, dict[str, Any]] = {}
        other_fields: dict[str, Any] = {}
        for index, invocable in enumerate(invocables):
            path = f"invocables[{index}]"
            if invocable.native is None and invocable.server_tool is None:  # as most are
                tool = self.write_tool(invocable, path, quirks, ledger)
            else:
                tool = self._write(invocable, path, quirks, ledger, model, other_fields)
                if tool is not None and self._is_named_like_another(tool, invocable, invocables):
                    ledger.withhold(path, f"another tool is called {tool['name']}")
                    tool = None
            if invocable.cache is not None:
                tool = self._mark(tool, invocable.cache, f"{path}.cache", quirks, ledger)
            if tool is not None:
                tools[invocable.name] = tool
        names = [name for name, tool in tools.items() if self.can_be_chosen(tool)]
        if choice not in (*CHOICES, *names) or (choice == "required" and not names):
            ledger.drop("invocation_choice", f"{choice}: this tool is not sent to the vendor")
            choice = "auto"
        offer = Offer(tools, choice, invocables, quirks, ledger, model)
        fields = self.compose(offer)
        joined = join_fields(fields, other_fields) if other_fields else fields
        return Translation(joined, ledger.losses)

    def _is_named_like_another(
        self,
        tool: Mapping[str, Any],
        invocable: InvocableDescription,
        others: Iterable[InvocableDescription],
    ) -> bool:
        """Return whether the fixed name of a server tool is also the name of another tool.

        About names that a client of this protocol gave, the vendor itself will complain.
        """
        if invocable.server_tool is None or "name" not in tool:
            return False
        if invocable.native is not None and invocable.native.protocol == self.protocol:
            return False
        return any(each.name == tool["name"] for each in others if each is not invocable)

    def _write(
        self,
        invocable: InvocableDescription,
        path: str,
        quirks: Any,
        ledger: Ledger,
        model: str,
        other_fields: dict[str, Any],
    ) -> dict[str, Any] | None:
        """Return a vendor's tool, or any other.

        Args:
            other_fields: Receives the tool's fields outside of ``tools``.
        """
        native, server_tool = invocable.native, invocable.server_tool
        is_own = native is not None and invocable.schema is None and is_vendors_own(invocable)
        if native is not None and is_own and ledger.admits(native):
            fields = read_native(native, path)
            other_fields |= join_fields(other_fields, fields.pop(BODY, {}))
            return unwrap_own_tool(fields) or None
        if server_tool is not None:
            from vibe_llms.dialects.server_tools import find_function, write_server_tool

            loss_count = len(ledger.losses)
            written = write_server_tool(
                server_tool,
                path,
                ledger,
                service=getattr(quirks, "server_tools", self.service),
                model=model,
                is_foreign=native is not None,
            )
            if written is not None:
                other_fields |= join_fields(other_fields, written.body)
                return written.tool
            function = find_function(invocable)
            if function is None:
                return None
            del ledger.losses[loss_count:]
            ledger.coerce(path, f"{NO_TOOL.format(server_tool.name)}; a function is sent")
            return self.write_tool(function, path, quirks, ledger)
        if not is_own:
            return self.write_tool(invocable, path, quirks, ledger)
        ledger.withhold(path, f"{invocable.name} is another vendor's own tool")
        return None

    def _mark(
        self,
        tool: dict[str, Any] | None,
        hint: CacheHint,
        path: str,
        quirks: Any,
        ledger: Ledger,
    ) -> dict[str, Any] | None:
        if tool is not None and self.mark_tool is not None:
            return self.mark_tool(tool, hint, path, quirks, ledger)
        ledger.omit_hint(path)
        return tool


def describe(invocable: InvocableDescription) -> dict[str, Any]:
    """Return the field with the description; no field for an empty one, which vendors reject."""
    return {"description": invocable.description} if invocable.description else {}


NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}}
"""The schema of a function without arguments."""


_UNENFORCED_KEYWORDS: Final = frozenset(
    {
        *("allOf", "oneOf", "not", "if", "then", "else"),
        *("contains", "minContains", "maxContains", "prefixItems", "uniqueItems"),
        *("dependentRequired", "dependentSchemas", "patternProperties", "propertyNames"),
        *("minProperties", "maxProperties", "unevaluatedItems", "unevaluatedProperties"),
    }
)
"""Keywords that OpenAI rejects in a schema that it enforces:
https://developers.openai.com/api/docs/guides/structured-outputs (read 2026-11-28).
"""

_RESTRICTING_KEYWORDS: Final = ("type", "enum", "const", "anyOf", "$ref")
"""Keywords that restrict a value. Without a tool there is no schema to enforce."""


def is_closed(schema: Any) -> bool:
    """Return whether OpenAI can enforce a schema.

    It must be an object, every object must be closed and require all its properties, and every
    value must have a type.
    """
    return not isinstance(schema, Mapping) or (
        schema.get("type") == "object" and _is_closed_within(schema)
    )


def _is_closed_within(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(map(_is_closed_within, schema))
    if not isinstance(schema, Mapping):
        return schema is not True
    if not _UNENFORCED_KEYWORDS.isdisjoint(schema) or not any(
        name in schema for name in _RESTRICTING_KEYWORDS
    ):
        return False
    properties, kind = schema.get("properties"), schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" in kinds or isinstance(properties, Mapping):
        names = properties.keys() if isinstance(properties, Mapping) else set()
        required = schema.get("required") or []
        if schema.get("additionalProperties") is not False or set(required) != set(names):
            return False
    inner = [schema[name] for name in ("items", "anyOf") if name in schema]
    for name in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(name), Mapping):
            inner += schema[name].values()
    return all(map(_is_closed_within, inner))


_PARAMETERS: Final = "$parameters"
"""Note with the original schema of a client's tool, if the schema was changed for vendors."""


def write_parameters(
    invocable: InvocableDescription, native_fields: dict[str, Any]
) -> JsonObject | None:
    """Return the schema of the arguments in a form that vendors accept; ``None`` for free text.

    Args:
        native_fields: The tool's native data; the original schema is removed from them.
    """
    original: JsonObject | None = native_fields.pop(_PARAMETERS, None)
    return (
        original
        if original is not None or invocable.schema is None
        else ensure_object_schema(invocable.schema)
    )


def keep_parameters(schema: JsonObject) -> tuple[JsonObject, dict[str, Any]]:
    """Return a client's schema as all vendors accept it, and native data with the original."""
    completed = ensure_object_schema(schema)
    return completed, {} if completed == schema else {_PARAMETERS: schema}


def ensure_object_schema(schema: JsonObject) -> JsonObject:
    """Add an object type and properties to the schema of arguments, if they are missing.

    Vendors reject schemas without them, which some MCP servers have.
    """
    if schema.get("type") == "object" and "properties" in schema:
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definitions: Any = schema.get("$defs")
    if isinstance(definitions, Mapping) and isinstance(definitions.get(name), Mapping):
        schema = {**definitions[name], **without(schema, "$ref")}
    return {**schema, "type": "object", "properties": schema.get("properties", {})}


def is_sent_strict(
    invocable: InvocableDescription, native_fields: Mapping[str, Any], path: str, ledger: Ledger
) -> bool:
    """Return whether to send a tool as strict; OpenAI rejects a schema that it cannot enforce.

    Args:
        native_fields: The tool's native data. A client of the protocol may require an unchanged
            tool.
    """
    if not invocable.enforced or native_fields.get(AS_IT_IS) or is_closed(invocable.schema):
        return invocable.enforced
    reason = "the vendor enforces only closed schemas whose properties are all required"
    ledger.drop(f"{path}.enforced", reason)
    return False


def allows_any_object(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema allows any object, like the JSON mode of some vendors."""
    return not schema or (
        schema.get("type") == "object"
        and not schema.get("properties")
        and schema.get("additionalProperties") is not False
        and not any(name in schema for name in ("$ref", "allOf", "anyOf", "oneOf"))
    )


class TakenNames:
    """Set of used names, which finds an unused one in constant time.

    Args:
        names: Names that are used from the start.
    """

    __slots__ = ("_names", "_numbers")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = set(names)
        self._numbers: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Mark a name as used."""
        self._names.add(name)

    def find_free(self, name: str) -> str:
        """Return the name, with a number at its end if the name is already used."""
        if name not in self._names:
            return name
        number = self._numbers.get(name, 2)
        while (candidate := f"{name}_{number}") in self._names:
            number += 1
        self._numbers[name] = number
        return candidate
