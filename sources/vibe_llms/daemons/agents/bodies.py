"""What clients say and are told, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import attrs
import msgspec

from vibe_llms.agents.local import CONFLICTS
from vibe_llms.daemons.bodies import decode_body
from vibe_llms.dialects.answering import ErrorAnswer, compose_error_headers, compose_error_message
from vibe_llms.dialects.answering import classify as classify_error
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    LimitError,
    ProviderError,
    ProviderFault,
    RequestError,
    Stage,
    StoreError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.invocables.approvals import Approval, Decision, Scope
from vibe_llms.messages.canisters import AnyCanister, SupervisorCanister, UserCanister
from vibe_llms.messages.codec.errors import encode_error
from vibe_llms.tables.annotations import Count
from vibe_llms.tables.reading import read_table

_CANISTERS: Final[dict[str, type[UserCanister | SupervisorCanister]]] = {
    "user": UserCanister,
    "supervisor": SupervisorCanister,
}


@frozen(kw_only=True)
class MessageBody:
    """Something that is said to a run.

    Attributes:
        content: The words.
        role: Whose.
    """

    content: str
    role: Literal["user", "supervisor"] = "user"

    def produce_canister(self) -> AnyCanister:
        """Produces what joins the conversation."""
        return _CANISTERS[self.role](self.content)


@frozen(kw_only=True)
class ApprovalBody:
    """An answer to a request for an approval.

    Attributes:
        digest: Of the request.
        decision: Whether it is executed.
        key: Of the call, where several that are the same wait.
        arguments: Other arguments, as JSON; for an edit.
        reason: Why, for the model.
        scope: How far it reaches.
    """

    digest: str
    decision: Decision
    key: str | None = None
    arguments: str | None = None
    reason: str = ""
    scope: Scope = Scope.ONCE

    def produce_approval(self) -> Approval:
        """Produces the answer. Raises RequestError where its parts do not go together."""
        fields = attrs.asdict(self, filter=lambda field, _: field.name != "key")
        return Approval(**fields)


@frozen(kw_only=True)
class StopBody:
    """That a run shall end.

    Attributes:
        reason: Why, for those who look at it.
    """

    reason: str = ""


@frozen(kw_only=True)
class Fork:
    """Where a run is forked.

    Attributes:
        node: Of a flow, the node from which on it is run anew.
        visit: Which of the node's visits is the first that is made anew, from 1.
        variables: Of a flow, instead of those that it was given, by name.
    """

    node: str = ""
    visit: Count = 1
    variables: Mapping[str, JsonValue] = attrs.field(factory=dict)


def read_json(body: bytes) -> JsonObject:
    """Reads the body of a request; nothing is an empty object. Raises RequestError."""
    return decode_body(body or b"{}")


def read_said(given: object) -> list[AnyCanister]:
    """Reads what is said first: a text, or a list of what is said. Raises ConfigurationError."""
    if given is None:
        return []
    if isinstance(given, str):
        return [UserCanister(given)]
    listed = given if isinstance(given, list) else [given]
    return [read_table(MessageBody, each, "input").produce_canister() for each in listed]


def write_error(error: ConverseError) -> ErrorAnswer:
    """Writes an error as clients of runs are told of it."""
    if isinstance(error, UnknownConversationError):  # in the same words, whoever's it is
        error = UnknownConversationError(identity=error.identity)
    fault, status = classify_error(error)
    match error:
        case UnknownConversationError() | UnknownNameError(kind="content"):
            status = 404
        case LimitError(limit="watchers"):
            status = 429
        case ConfigurationError():
            fault, status = ProviderFault.INVALID_REQUEST, 400
        case UnknownNameError(kind="waiting call"):
            status = 409
        case RequestError() if error.path in CONFLICTS:
            status = 409
        case UnknownNameError():
            status = 400
        case ProviderError(provider=""):  # nobody was asked: there is nothing at this path
            error = RequestError(path="path", detail=error.detail, stage=Stage.FRAME)
    message = str(error) if status < 500 else error.describe()
    if isinstance(error, StoreError) and status >= 500:  # its own words name hosts and files
        message = compose_error_message(error)
    told = {
        "message": message,
        "type": "server_error" if status >= 500 else str(fault),
        "code": error.WORD,
        "stage": str(error.stage) if error.stage else None,
    }
    if status < 500:  # what the message says, for programs
        told["facts"] = msgspec.json.decode(encode_error(error))["facts"]
    return ErrorAnswer(status, {"error": told}, compose_error_headers(error))
