"""What the dialects share about invocations: arguments, tools and schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.extras import AS_IT_IS, read_native, without, write_json
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Translation

BROKEN_ARGUMENTS: Final = "INVALID_JSON"
"""Under which arguments that are no JSON object go to a vendor, as Anthropic's documentation
proposes: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/fine-grained-tool-streaming"""

_NOTHING: Final = ("", "null", '""')


def write_arguments(canister: InvocationCanister, protocol: str) -> str:
    """Returns the text of the arguments: the one that the model wrote.

    Nothing, as another protocol has said it, goes as an object without fields: not every vendor
    reads its own way of saying nothing in what another one said.
    """
    origin = canister.origin
    is_foreign = origin is not None and origin.protocol != protocol
    if canister.form == "json" and is_foreign and canister.arguments in _NOTHING:
        return "{}"
    return canister.arguments


def write_object(canister: InvocationCanister, path: str, ledger: Ledger) -> str:
    """Returns the text of the arguments as an object, for servers that read earlier calls again.

    Such a server refuses all that is said later where one of them does not read. Nothing goes as
    an object without fields, and what is no object as the text of one; the result of the call says
    what was wrong with it.
    """
    text = canister.arguments
    if holds_object(text):
        return text
    if canister.fault is None:
        return "{}"
    reason = f"{canister.fault}; they go as text in the field {BROKEN_ARGUMENTS}"
    ledger.coerce(f"{path}.arguments", reason)
    return write_json({BROKEN_ARGUMENTS: text})


def holds_object(text: str) -> bool:
    """Tells whether a text is a JSON object."""
    import msgspec  # most conversations hold no calls

    from vibe_llms.foundation.json_errors import UNREADABLE

    try:
        return isinstance(msgspec.json.decode(text), dict)
    except UNREADABLE:
        return False


_TAKING_TEXT: Final = frozenset({"chat_completions", "responses"})
"""The protocols with custom tools, which take free text. In any other what has no schema is its
vendor's own, which nobody else knows, and nobody here executes."""


def is_vendors_own(invocable: InvocableDescription) -> bool:
    """Tells whether the native of an invocable is a tool by itself, rather than the rest of one.

    Raises:
        RequestError: The native holds no JSON object.
    """
    native = invocable.native
    if native is None:
        return False
    fields = read_native(native, "the description of an invocable")
    if native.protocol not in _TAKING_TEXT:
        return invocable.schema is None or fields.get("type") not in (None, "custom")
    return "type" in fields


def keep_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is kept of a vendor's own tool: its type, be it none, says that it is whole."""
    return {"type": None, **tool}


def open_tool(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the tool of which :func:`keep_tool` has made what is kept."""
    return dict(kept) if kept.get("type") is not None else without(kept, "type")


@frozen
class Offer:
    """What a model may invoke.

    Attributes:
        tools: What is offered, as the vendor is told of it, by the names of the invocables.
        choice: One that can be made: ``none``, ``auto``, the name of a tool, or ``required`` where
            there is one.
        invocables: All of them, those included that could not be offered.
        quirks: Of the vendor, in the dialect's own class.
        ledger: Takes down what could not be said.
    """

    tools: dict[str, dict[str, Any]]
    choice: str
    invocables: Sequence[InvocableDescription]
    quirks: Any
    ledger: Ledger


@frozen
class InvocablesWriter:
    """Writes what a model may invoke, and the choice among it, in one dialect.

    Attributes:
        protocol: The dialect that is written.
        write_tool: Makes the tool of an invocable that is no vendor's own; ``None``, with a loss,
            where there is no such tool. It is given the path of the invocable, too.
        compose: Puts tools and choice into the fields of a request.
        can_be_chosen: Whether a tool can be named by the choice.
    """

    protocol: str
    write_tool: Callable[[InvocableDescription, str, Any, Ledger], dict[str, Any] | None]
    compose: Callable[[Offer], dict[str, Any]]
    can_be_chosen: Callable[[Mapping[str, Any]], bool] = bool

    def nativize(
        self,
        invocables: Sequence[InvocableDescription],
        choice: str,
        quirks: Any = None,
        *,
        provider: str = "",
    ) -> Translation[JsonObject]:
        """Returns the tools and the choice; nothing where there are no invocables.

        Raises:
            RequestError: What an invocable has of its vendor makes no sense.
        """
        ledger = Ledger(protocol=self.protocol, provider=provider)
        tools: dict[str, dict[str, Any]] = {}
        for index, invocable in enumerate(invocables):
            tool = self._write(invocable, f"invocables[{index}]", quirks, ledger)
            if tool is not None:
                tools[invocable.name] = tool
        names = [name for name, tool in tools.items() if self.can_be_chosen(tool)]
        if choice not in (*CHOICES, *names) or (choice == "required" and not names):
            ledger.drop("invocation_choice", f"{choice}: it is not offered to this vendor")
            choice = "auto"
        offer = Offer(tools, choice, invocables, quirks, ledger)
        return Translation(self.compose(offer), ledger.losses)

    def _write(
        self, invocable: InvocableDescription, path: str, quirks: Any, ledger: Ledger
    ) -> dict[str, Any] | None:
        native = invocable.native
        if native is None or invocable.schema is not None or not is_vendors_own(invocable):
            return self.write_tool(invocable, path, quirks, ledger)
        if ledger.admits(native):
            return open_tool(read_native(native, path))
        ledger.withhold(path, f"{invocable.name} is another vendor's own tool")
        return None


def describe(invocable: InvocableDescription) -> dict[str, Any]:
    """Returns the field for the description, which vendors do not want to be empty."""
    return {"description": invocable.description} if invocable.description else {}


NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}}
"""The schema of a function that takes none."""


_UNHELD: Final = frozenset(
    {
        *("allOf", "oneOf", "not", "if", "then", "else"),
        *("contains", "minContains", "maxContains", "prefixItems", "uniqueItems"),
        *("dependentRequired", "dependentSchemas", "patternProperties", "propertyNames"),
        *("minProperties", "maxProperties", "unevaluatedItems", "unevaluatedProperties"),
    }
)
"""What OpenAI refuses in a schema that it enforces:
https://developers.openai.com/api/docs/guides/structured-outputs (read 2026-11-28)."""

_TELLING: Final = ("type", "enum", "const", "anyOf", "$ref")
"""One of these says what a value is; of what may be anything, nothing can be enforced."""


def is_closed(schema: Any) -> bool:
    """Tells whether OpenAI can enforce a schema.

    It is of an object, every object is closed and needs all its properties, and every value has a
    type.
    """
    return not isinstance(schema, Mapping) or (
        schema.get("type") == "object" and _is_closed_within(schema)
    )


def _is_closed_within(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(map(_is_closed_within, schema))
    if not isinstance(schema, Mapping):
        return schema is not True
    if not _UNHELD.isdisjoint(schema) or not any(name in schema for name in _TELLING):
        return False
    properties, kind = schema.get("properties"), schema.get("type")
    if "object" in (kind if isinstance(kind, list) else [kind]) or isinstance(properties, Mapping):
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
"""The schema of a tool as its client has said it, where that is not as vendors take it."""


def write_parameters(invocable: InvocableDescription, kept: dict[str, Any]) -> JsonObject | None:
    """Returns the schema of the arguments as a vendor takes it; ``None`` where that is free text.

    Args:
        kept: What the tool has of its protocol, without what is said by the schema afterwards.
    """
    said: JsonObject | None = kept.pop(_PARAMETERS, None)
    return said if said is not None or invocable.schema is None else fit_object(invocable.schema)


def keep_parameters(schema: JsonObject) -> tuple[JsonObject, dict[str, Any]]:
    """Returns a client's schema as all vendors take it, and what is kept of its own words."""
    fitted = fit_object(schema)
    return fitted, {} if fitted == schema else {_PARAMETERS: schema}


def fit_object(schema: JsonObject) -> JsonObject:
    """Returns the schema of arguments, which are an object, so that it says so.

    Vendors refuse one that says nothing, as some MCP servers' do, or names no properties.
    """
    if schema.get("type") == "object" and "properties" in schema:
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definitions: Any = schema.get("$defs")
    if isinstance(definitions, Mapping) and isinstance(definitions.get(name), Mapping):
        schema = {**definitions[name], **without(schema, "$ref")}
    return {**schema, "type": "object", "properties": schema.get("properties", {})}


def holds_strictly(
    invocable: InvocableDescription, kept: Mapping[str, Any], path: str, ledger: Ledger
) -> bool:
    """Tells whether OpenAI holds a model to the schema of a tool, which it refuses otherwise.

    Args:
        kept: What the tool has of its protocol: a client of that may have wanted it as it is.
    """
    if not invocable.enforced or kept.get(AS_IT_IS) or is_closed(invocable.schema):
        return invocable.enforced
    reason = "the vendor enforces only closed schemas whose properties are all required"
    ledger.drop(f"{path}.enforced", reason)
    return False


def is_free(schema: Mapping[str, Any]) -> bool:
    """Tells whether any object will do, as in the JSON mode of some vendors."""
    return not schema or (
        schema.get("type") == "object"
        and not schema.get("properties")
        and schema.get("additionalProperties") is not False
        and not any(name in schema for name in ("$ref", "allOf", "anyOf", "oneOf"))
    )


class TakenNames:
    """Names that are taken. One more takes the same time, however many there are.

    Args:
        names: Those that are taken from the start.
    """

    __slots__ = ("_names", "_numbers")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = set(names)
        self._numbers: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Take a name."""
        self._names.add(name)

    def find_free(self, name: str) -> str:
        """Return the name itself, or else with the first number that makes it one of its own."""
        if name not in self._names:
            return name
        number = self._numbers.get(name, 2)
        while (free := f"{name}_{number}") in self._names:
            number += 1
        self._numbers[name] = number
        return free
