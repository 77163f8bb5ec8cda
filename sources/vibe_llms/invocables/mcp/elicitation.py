"""Questions of a server to a person: forms, and addresses to visit."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.invocables.argument_faults import ArgumentFault
from vibe_llms.invocables.validation import produce_validator

if TYPE_CHECKING:
    from mcp.client.client import Client

FIELDS_LIMIT: Final = 100
ROUNDS_LIMIT: Final = 3
"""Maximum number of times that one question is asked until its answer is valid."""

ADDRESSES_LIMIT: Final = 5
"""Maximum number of addresses that one call may ask a person to visit."""

_LOOPBACKS: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@frozen
class FieldOption:
    """One permitted value of a field with its label."""

    value: str
    title: str


@frozen(kw_only=True)
class FormField:
    """One requested value.

    Attributes:
        name: Name of the value in the answer.
        kind: The type of the value: ``text``, ``number``, ``integer``, ``boolean``, ``choice`` or
            ``choices``.
        title: Display name.
        description: Purpose of the value, in the server's words.
        is_required: True if an answer needs this value.
        default: The value if the answer has none; ``None`` without a default.
        choices: The permitted values.
        format: Format of a text, such as ``email``; empty for any.
    """

    name: str
    kind: str
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: JsonValue = None
    choices: tuple[FieldOption, ...] = ()
    format: str = ""


@frozen(kw_only=True)
class Question:
    """Question of a server to a person.

    Attributes:
        server: The name of the server, which the person must see.
        message: The text of the question.
        fields: The requested values; empty for an address to visit.
        schema: The JSON Schema of the values.
        address: The address to visit; empty for a form.
        faults: Faults of the last answer to this question.
    """

    server: str
    message: str
    fields: tuple[FormField, ...] = ()
    schema: JsonObject = attrs.field(factory=dict, repr=False)
    address: str = ""
    faults: tuple[ArgumentFault, ...] = ()


class Action(enum.StrEnum):
    """A person's reaction: accepted, declined or cancelled."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"


@frozen(kw_only=True)
class ElicitationAnswer:
    """A person's answer.

    Attributes:
        action: The reaction.
        values: The values by the names of the fields; missing values are the defaults.
    """

    action: Action = attrs.field(default=Action.ACCEPT, converter=Action)
    values: Mapping[str, JsonValue] = attrs.field(factory=dict, repr=False)


class Elicitor(Protocol):
    """Protocol for asking a person a server's questions.

    It may take any time, and may be cancelled. The address of a question must be shown, and opened
    only if the person agrees; nothing may be fetched before.
    """

    async def elicit(self, question: Question) -> ElicitationAnswer:
        """Ask the question."""
        ...


async def answer_form(
    elicitor: Elicitor, server: str, message: str, schema: Mapping[str, Any]
) -> ElicitationAnswer:
    """Ask for the values of a form until they match the form's schema.

    Returns:
        The answer, including defaults. An answer that stays invalid counts as cancelled.

    Raises:
        ValueError: The schema is not the schema of a form.
    """
    fields = read_fields(schema)
    validator = produce_validator(dict(schema), f"the form of {server}")
    question = Question(server=server, message=message, fields=fields, schema=dict(schema))
    for _ in range(ROUNDS_LIMIT):
        answer = await elicitor.elicit(question)
        if answer.action is not Action.ACCEPT:
            return ElicitationAnswer(action=answer.action)
        defaults = {field.name: field.default for field in fields if field.default is not None}
        values = {**defaults, **answer.values}
        faults = await validator.examine(values)
        if not faults:
            return ElicitationAnswer(values=values)
        fields = tuple(_keep_answer(field, values, faults) for field in fields)
        question = attrs.evolve(question, fields=fields, faults=faults)
    return ElicitationAnswer(action=Action.CANCEL)


async def answer_address(
    elicitor: Elicitor, server: str, message: str, address: str
) -> ElicitationAnswer:
    """Ask a person to visit an address; decline an unencrypted address without asking."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ElicitationAnswer(action=Action.DECLINE)
    is_local = parts.scheme == "http" and parts.hostname in _LOOPBACKS
    # A user name disguises the host: https://bank.example@evil.example leads to evil.example.
    if not parts.hostname or parts.username or not (parts.scheme == "https" or is_local):
        return ElicitationAnswer(action=Action.DECLINE)
    answer = await elicitor.elicit(Question(server=server, message=message, address=address))
    return ElicitationAnswer(action=answer.action)


def read_fields(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Read the flat schema of a form.

    Raises:
        ValueError: The schema is not flat, or not the schema of a form.
    """
    properties = schema.get("properties", {})
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise ValueError("the schema of a form must be an object")
    if len(properties) > FIELDS_LIMIT:
        raise ValueError(f"a form may have at most {FIELDS_LIMIT} fields")
    required = schema.get("required") or ()
    return tuple(_read_field(name, each, name in required) for name, each in properties.items())


def _read_field(name: str, schema: Any, is_required: bool) -> FormField:
    if not isinstance(schema, Mapping):
        raise ValueError(f"the field {name!r} has no schema")
    kind, choices = _read_kind(name, schema)
    return FormField(
        name=name,
        kind=kind,
        title=str(schema.get("title") or name),
        description=str(schema.get("description") or ""),
        is_required=is_required,
        default=schema.get("default"),
        choices=choices,
        format=str(schema.get("format") or ""),
    )


def _read_kind(name: str, schema: Mapping[str, Any]) -> tuple[str, tuple[FieldOption, ...]]:
    match schema.get("type"):
        case "string":
            choices = _read_choices(schema)
            return ("choice" if choices else "text"), choices
        case "number" | "integer" | "boolean" as kind:
            return kind, ()
        case "array" if isinstance(schema.get("items"), Mapping):
            choices = _read_choices(schema["items"])
            if choices:
                return "choices", choices
    raise ValueError(f"the field {name!r} has a type that forms do not support")


def _read_choices(schema: Mapping[str, Any]) -> tuple[FieldOption, ...]:
    """Read choices in any of the three formats, two of which have titles."""
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, Sequence):
        return tuple(
            FieldOption(str(each["const"]), str(each.get("title") or each["const"]))
            for each in titled
            if isinstance(each, Mapping) and "const" in each
        )
    values = schema.get("enum") or ()
    titles = schema.get("enumNames") or values
    return tuple(
        FieldOption(str(value), str(title)) for value, title in zip(values, titles, strict=False)
    )


def _keep_answer(
    field: FormField, values: Mapping[str, JsonValue], faults: Sequence[ArgumentFault]
) -> FormField:
    """Use valid values of the last answer as defaults when the form is asked again."""
    paths = [fault.path.removeprefix("arguments.") for fault in faults]
    if any(re.split(r"[.\[]", path)[0] == field.name for path in paths):
        return field
    return attrs.evolve(field, default=values.get(field.name))


async def visit_addresses(client: Client, error: BaseException | None) -> bool:
    """Ask a person to visit the addresses that a server requires before a call.

    With sessions, the call fails with an error that contains the addresses. In protocol versions
    without sessions, the result contains the question, and the official package asks it.

    Args:
        client: The client of the server, whose elicitor asks this question, too.
        error: The error of the call.

    Returns:
        True if the user has visited all addresses, so that the call can be repeated; false also for
        an error with another reason.
    """
    from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
    from mcp_types import URL_ELICITATION_REQUIRED

    if not isinstance(error, MCPError) or error.code != URL_ELICITATION_REQUIRED:
        return False
    ask: Any = client.elicitation_callback
    if ask is None:
        return False
    try:
        requests = UrlElicitationRequiredError.from_error(error.error).elicitations
    except (ValueError, TypeError, KeyError):
        return False
    # Without an address the call would be repeated at once; too many would exhaust a person.
    if not 0 < len(requests) <= ADDRESSES_LIMIT:
        return False
    for each in requests:
        answer = await ask(None, each)
        if getattr(answer, "action", "") != "accept":
            return False
    return True
