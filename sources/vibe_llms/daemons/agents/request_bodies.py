"""Request bodies and error answers of the agents daemon, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import attrs
import msgspec

from vibe_llms.agents.local import CONFLICTS
from vibe_llms.agents.notes import VERSION
from vibe_llms.agents.run_specs import RunSpec, read_run_spec
from vibe_llms.daemons.bodies import decode_body
from vibe_llms.dialects.client_answers import (
    ErrorAnswer,
    compose_error_headers,
    compose_error_message,
)
from vibe_llms.dialects.client_answers import classify as classify_error
from vibe_llms.dialects.payloads import decode_base64
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
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    FileContent,
    ImageContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.tables.annotations import Count, String
from vibe_llms.tables.reading import read_table

_CANISTERS: Final[dict[str, type[UserCanister | SupervisorCanister]]] = {
    "user": UserCanister,
    "supervisor": SupervisorCanister,
}
_MEDIA: Final[Mapping[str, type[ImageContent | AudioContent | VideoContent | FileContent]]] = {
    "image": ImageContent,
    "audio": AudioContent,
    "video": VideoContent,
    "file": FileContent,
}


@frozen(kw_only=True)
class MessagePart:
    """A part of a message: a text, or media as data.

    Attributes:
        type: Kind of the part.
        text: The text, for a text.
        data: The bytes of media, in base64.
        mime_type: Media type; by default it is recognized from the first bytes.
        name: Name of the file.
    """

    type: Literal["text", "image", "audio", "video", "file"]
    text: String = ""
    data: String = ""
    mime_type: String = ""
    name: str | None = None

    def produce_content(self) -> AnyContent:
        """Produce the content. Raises RequestError."""
        if self.type == "text":
            return TextualContent(self.text)
        data = decode_base64(self.data)
        if not data:
            raise RequestError(
                path="content", detail="The data of media must be base64.", stage=Stage.FRAME
            )
        return _MEDIA[self.type](data=data, mime_type=self.mime_type, name=self.name)


@frozen(kw_only=True)
class MessageAuthor:
    """A message to a run, without its content.

    Attributes:
        role: Role of its author.
    """

    role: Literal["user", "supervisor"] = "user"


@frozen(kw_only=True)
class MessageBody(MessageAuthor):
    """A message to a run, whose content is a text.

    Attributes:
        content: Text of the message.
        role: Role of its author.
    """

    content: str


def read_message(value: object, place: str) -> AnyCanister:
    """Read a message, whose content is a text or a list of parts.

    Raises:
        ConfigurationError: A field is invalid.
        RequestError: The data of media are invalid.
    """
    content = value.get("content") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(content, list):
        body = read_table(MessageBody, value, place)
        return _CANISTERS[body.role](body.content)
    parts = [
        read_table(MessagePart, each, f"{place}.content[{index}]").produce_content()
        for index, each in enumerate(content)
    ]
    rest = {name: field for name, field in value.items() if name != "content"}
    return _CANISTERS[read_table(MessageAuthor, rest, place).role](parts)


@frozen(kw_only=True)
class ApprovalBody:
    """An answer to a request for an approval.

    Attributes:
        digest: Digest of the request.
        decision: Whether the call is executed.
        key: Id of the call's canister, if several identical calls wait.
        arguments: Replacement arguments as JSON, for an edit.
        reason: Reason, for the model.
        scope: Scope of the approval.
    """

    digest: str
    decision: Decision
    key: str | None = None
    arguments: str | None = None
    reason: str = ""
    scope: Scope = Scope.ONCE

    def produce_approval(self) -> Approval:
        """Produce the answer. Raises RequestError if its fields contradict each other."""
        fields = attrs.asdict(self, filter=lambda field, _: field.name != "key")
        return Approval(**fields)


@frozen(kw_only=True)
class StopBody:
    """A request to stop a run.

    Attributes:
        reason: Reason, shown to users of the run.
    """

    reason: str = ""


@frozen(kw_only=True)
class Fork:
    """A request to fork a run.

    Attributes:
        node: For a flow, the node to restart from.
        visit: Number of the node's first visit that is repeated, from 1.
        variables: For a flow, variables that replace the original ones, by name.
    """

    node: str = ""
    visit: Count = 1
    variables: Mapping[str, JsonValue] = attrs.field(factory=dict)


@frozen(kw_only=True)
class RunStart:
    """A request to start a run.

    Attributes:
        spec: Specification of the run.
        messages: Messages to begin or continue the conversation with.
        conversation: Id of a conversation to continue; empty for a new one.
    """

    spec: RunSpec
    messages: Sequence[AnyCanister]
    conversation: str


def read_json(body: bytes) -> JsonObject:
    """Read the body of a request; an empty body is an empty object. Raises RequestError."""
    return decode_body(body or b"{}")


def read_input(value: object) -> list[AnyCanister]:
    """Read the first messages: a text, or a list of messages. Raises ConfigurationError."""
    if value is None:
        return []
    if isinstance(value, str):
        return [UserCanister(value)]
    messages = value if isinstance(value, list) else [value]
    return [read_message(each, "input") for each in messages]


def read_start(body: bytes) -> RunStart:
    """Read the request for a run. Raises RequestError, ConfigurationError."""
    fields = dict(read_json(body))
    conversation = fields.pop("conversation", "")
    if not isinstance(conversation, str):
        raise RequestError(
            path="conversation",
            detail="The id of a conversation must be a text.",
            stage=Stage.FRAME,
        )
    messages = read_input(fields.pop("input", None))
    return RunStart(spec=read_run_spec(fields), messages=messages, conversation=conversation)


def write_error(error: ConverseError) -> ErrorAnswer:
    """Write an error in the format for clients of runs."""
    if isinstance(error, UnknownConversationError):  # a foreign run gets the text of a missing run
        error = UnknownConversationError(identity=error.identity)
    fault, status = classify_error(error)
    match error:
        case UnknownConversationError() | UnknownNameError(kind="content" | "note"):
            status = 404
        case LimitError(limit="watchers"):
            status = 429
        case ConfigurationError():
            fault, status = ProviderFault.INVALID_REQUEST, 400
        case UnknownNameError(kind="waiting call"):
            status = 409
        case RequestError(path="if-match"):
            status = 428
        case RequestError() if error.path == VERSION:
            status = 412
        case RequestError() if error.path in CONFLICTS:
            status = 409
        case UnknownNameError():
            status = 400
        case ProviderError(provider=""):  # no provider was asked: the path is unknown
            error = RequestError(path="path", detail=error.detail, stage=Stage.FRAME)
    message = str(error) if status < 500 else error.describe()
    if isinstance(error, StoreError) and status >= 500:  # the error's message names hosts and files
        message = compose_error_message(error)
    body = {
        "message": message,
        "type": "server_error" if status >= 500 else str(fault),
        "code": error.WORD,
        "stage": str(error.stage) if error.stage else None,
    }
    if status < 500:  # the content of the message, for programs
        body["facts"] = msgspec.json.decode(encode_error(error))["facts"]
    return ErrorAnswer(status, {"error": body}, compose_error_headers(error))
