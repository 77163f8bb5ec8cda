"""A client's messages as canisters: what a gateway reads."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    FileContent,
    ImageContent,
    Native,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Loss, LossKind, Translation

_KNOWN_FIELDS: Final = frozenset(
    {
        "content",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "role",
        "tool_call_id",
        "tool_calls",
    }
)


def normalize_messages(
    native: Mapping[str, Any],
) -> Translation[tuple[AnyCanister, ...]]:
    """Returns the canisters of a request's ``messages``.

    Raises:
        RequestError: A message makes no sense.
    """
    reader = _MessagesReader()
    canisters: list[AnyCanister] = []
    for index, message in enumerate(native.get("messages") or ()):
        path = f"messages[{index}]"
        try:
            canisters.extend(reader.read(message, path))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, RequestError):
                raise
            raise RequestError(
                path=path,
                detail=f"The message at {path} makes no sense: {error!r}.",
                remedy="Compare it with the reference of Chat Completions.",
            ) from error
    return Translation(tuple(canisters), reader.losses)


@attrs.define
class _MessagesReader:
    losses: list[Loss] = attrs.field(factory=list)

    def read(self, message: Mapping[str, Any], path: str) -> Iterator[AnyCanister]:
        for name in message.keys() - _KNOWN_FIELDS:
            if message[name] not in (None, [], ""):
                self._drop(f"{path}.{name}", "this field has no common meaning")
        match message["role"]:
            case "system" | "developer":
                yield SupervisorCanister(self._read_content(message["content"], path))
            case "user":
                yield UserCanister(self._read_content(message["content"], path))
            case "tool":
                yield ResultCanister(
                    content=self._read_content(message["content"], path),
                    invocation_id=message["tool_call_id"],
                )
            case "assistant":
                yield from self._read_turn(message, path)
            case role:
                raise RequestError(path=path, detail=f"There is no role {role!r}.")

    def _read_turn(self, message: Mapping[str, Any], path: str) -> Iterator[AnyCanister]:
        turn_id = produce_identity()
        contents = [*_read_reasoning(message), *self._read_content(message.get("content"), path)]
        if message.get("refusal"):
            contents.append(RefusalContent(message["refusal"]))
        calls = message.get("tool_calls") or ()
        if contents or not calls:
            yield AssistantCanister(contents, turn_id=turn_id)
        for index, call in enumerate(calls):
            if "function" not in call:
                self._drop(f"{path}.tool_calls[{index}]", "only functions have a common meaning")
                continue
            yield InvocationCanister(
                invocation_id=call["id"],
                name=call["function"]["name"],
                arguments=call["function"]["arguments"],
                turn_id=turn_id,
            )

    def _read_content(self, content: str | Sequence[Any] | None, path: str) -> list[AnyContent]:
        if content is None:
            return []
        if isinstance(content, str):
            return [TextualContent(content)] if content else []
        return [_read_part(part) for part in content]

    def _drop(self, path: str, reason: str) -> None:
        self.losses.append(Loss(kind=LossKind.DROPPED, path=path, reason=reason))


def _read_reasoning(message: Mapping[str, Any]) -> list[AnyContent]:
    text = message.get("reasoning_content") or message.get("reasoning") or ""
    details = message.get("reasoning_details")
    if not text and not details:
        return []
    return [ReasoningContent(text=text, native=keep_details(details))]


def keep_details(details: Sequence[Any] | None) -> Native | None:
    """Keeps the details which a vendor wants back unchanged."""
    if not details:
        return None
    data = msgspec.json.encode({"reasoning_details": details}).decode("utf-8")
    return Native(protocol=PROTOCOL, data=data)


def _read_part(part: Any) -> AnyContent:
    match part:
        case {"type": "text", "text": str(text)}:
            return TextualContent(text)
        case {"type": "refusal", "refusal": str(text)}:
            return RefusalContent(text)
        case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
            return _read_image(url, rest.get("detail"))
        case {"type": "image_url", "image_url": str(url)}:
            return _read_image(url, None)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(word)}}:
            mime_type = "audio/mpeg" if word == "mp3" else f"audio/{word}"
            return AudioContent(mime_type=mime_type, data=_decode(data))
        case {"type": "file", "file": {"file_id": str(file_id)}}:
            return FileContent(mime_type="application/octet-stream", file_id=file_id)
        case {"type": "file", "file": {"file_data": str(url), **rest}}:
            name: Any = rest.get("filename")
            mime_type, content = _split_data_url(url)
            return FileContent(mime_type=mime_type, data=content, name=name)
    text = msgspec.json.encode(part).decode("utf-8")
    return NativeContent(kind=str(part["type"]), native=Native(protocol=PROTOCOL, data=text))


def _read_image(url: str, detail: Any) -> ImageContent:
    if not url.startswith("data:"):
        return ImageContent(mime_type="image/*", url=url, detail=detail)
    mime_type, data = _split_data_url(url)
    return ImageContent(mime_type=mime_type, data=data, detail=detail)


def _split_data_url(url: str) -> tuple[str, bytes]:
    head, _, data = url.partition(",")
    return head.removeprefix("data:").removesuffix(";base64"), _decode(data)


def _decode(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise RequestError(path="content", detail="Data are not in base 64.") from error
