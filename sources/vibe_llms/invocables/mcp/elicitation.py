"""Questions of a server that a person has to answer: forms, and addresses to go to."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.invocables.validation import ArgumentFault, produce_validator

if TYPE_CHECKING:
    from mcp.client.client import Client

FIELDS_LIMIT: Final = 100
ROUNDS_LIMIT: Final = 3
"""How often a person is asked the same when their answer does not fit."""

ADDRESSES_LIMIT: Final = 5
"""To how many addresses one call may send a person."""

_LOOPBACKS: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@frozen
class FieldOption:
    """One value among those that a field may have, and what a person is shown for it."""

    value: str
    title: str


@frozen(kw_only=True)
class FormField:
    """One value that is asked for.

    Attributes:
        name: Of the value in the answer.
        kind: ``text``, ``number``, ``integer``, ``boolean``, ``choice`` or ``choices``.
        title: What a person is shown for the name.
        description: What it is for, in the server's words.
        is_required: Whether there is no answer without it.
        default: What counts where nothing is said; ``None`` for nothing.
        choices: What can be chosen.
        format: What kind of text, such as ``email``; empty for any.
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
    """What a server asks a person.

    Attributes:
        server: The name of the server: a person must see who asks.
        message: What it says.
        fields: The values that it wants; none where it wants the person to go somewhere.
        schema: The JSON Schema that the values have to fit.
        address: Where it wants the person to go; empty for a form.
        faults: What was wrong with the last answer to the same question.
    """

    server: str
    message: str
    fields: tuple[FormField, ...] = ()
    schema: JsonObject = attrs.field(factory=dict, repr=False)
    address: str = ""
    faults: tuple[ArgumentFault, ...] = ()


class Action(enum.StrEnum):
    """What a person did with a question: answered it, refused to, or turned away from it."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"


@frozen(kw_only=True)
class ElicitationAnswer:
    """What a person answered.

    Attributes:
        action: What they did.
        values: By the names of the fields; defaults are filled in where one is missing.
    """

    action: Action = attrs.field(default=Action.ACCEPT, converter=Action)
    values: Mapping[str, JsonValue] = attrs.field(factory=dict, repr=False)


class Elicitor(Protocol):
    """Whoever asks a person a server's questions.

    It may think for as long as it likes, and may be cancelled meanwhile. For a question with an
    address it shows that, and opens it only if the person wants to; nothing is fetched before.
    """

    async def elicit(self, question: Question) -> ElicitationAnswer:
        """Asks."""
        ...


async def answer_form(
    elicitor: Elicitor, server: str, message: str, schema: Mapping[str, Any]
) -> ElicitationAnswer:
    """Asks for the values of a form until they fit its schema.

    Returns:
        The answer, defaults included; one that never fitted counts as turned away from.

    Raises:
        ValueError: The schema is none that a form could be made of.
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
    """Asks a person to go somewhere; where they would go unprotected, they are not asked."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ElicitationAnswer(action=Action.DECLINE)
    is_home = parts.scheme == "http" and parts.hostname in _LOOPBACKS
    # A user's name before the host is a trick: https://bank.example@evil.example leads to evil.
    if not parts.hostname or parts.username or not (parts.scheme == "https" or is_home):
        return ElicitationAnswer(action=Action.DECLINE)
    answer = await elicitor.elicit(Question(server=server, message=message, address=address))
    return ElicitationAnswer(action=answer.action)


def read_fields(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Reads the flat schema of a form.

    Raises:
        ValueError: It is not flat, or no schema of a form.
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
    """Reads the three ways in which choices are said, with titles and without."""
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
    """Lets what was answered well count where nothing is said when the form is asked again."""
    paths = [fault.path.removeprefix("arguments.") for fault in faults]
    if any(re.split(r"[.\[]", path)[0] == field.name for path in paths):
        return field
    return attrs.evolve(field, default=values.get(field.name))


async def visit_addresses(client: Client, error: BaseException | None) -> bool:
    """Sends a person where they have to have been before a server begins with a call.

    So it is in the era of sessions, where the call is an error that names the addresses; in the
    other the result requires an answer, and the official package asks for it.

    Args:
        client: Of the server; whoever answers its questions answers this one, too.
        error: What came of the call.

    Returns:
        Whether they have been everywhere, so that the call can be made again; ``False`` also
        where it was refused for another reason.
    """
    from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
    from mcp_types import URL_ELICITATION_REQUIRED

    if not isinstance(error, MCPError) or error.code != URL_ELICITATION_REQUIRED:
        return False
    ask: Any = client.elicitation_callback
    if ask is None:
        return False
    try:
        wanted = UrlElicitationRequiredError.from_error(error.error).elicitations
    except (ValueError, TypeError, KeyError):
        return False
    # None to visit would mean to call at once again, and too many that a person is worn down.
    if not 0 < len(wanted) <= ADDRESSES_LIMIT:
        return False
    for each in wanted:
        answer = await ask(None, each)
        if getattr(answer, "action", "") != "accept":
            return False
    return True
