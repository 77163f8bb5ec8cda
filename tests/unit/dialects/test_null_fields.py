"""A null field means the same as an absent one, in every answer of every vendor.

At each key of complete and streamed answers, from the simulator and from the types of the official
SDKs, the value is null once if the answer is valid without it. The answer is read the same, and can
be written again.
"""

from __future__ import annotations

import collections.abc
import contextlib
import enum
import functools
import importlib
import json
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs
import msgspec
import pytest
from anthropic.types.beta import BetaMessage
from google.genai.types import GenerateContentResponse, Part
from openai.types.chat import ChatCompletion
from openai.types.responses import Response as OpenaiResponse
from pydantic import BaseModel

from support.quality.properties import sample
from support.vendors.anthropic_types import spread
from support.vendors.hostility import (
    ABSENT,
    PROTOCOLS,
    Frame,
    produce_bodies,
    produce_streams,
    read_body,
    read_stream,
    replace_at,
    walk_paths,
)
from support.vendors.sdk_generation import survey_fields
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import Owner
from vibe_llms.messages.requests import Response

TYPES: Final[dict[str, type[BaseModel]]] = {
    "chat_completions": ChatCompletion,
    "generate_content": GenerateContentResponse,
    "messages": BetaMessage,
    "responses": OpenaiResponse,
}
"""What each vendor's SDK declares; Ollama's and Perplexity's are not installed."""
PLAIN: Final = {bool: True, int: 1, float: 1.0, str: "QUJD"}
SPECIAL: Final[dict[str, Any]] = {
    "arguments": '{"a": 1}',
    "error": None,
    "finishReason": "STOP",
    "finish_reason": "stop",
    "incomplete_details": None,
    "index": 0,
    "jsonPath": "$.a",
    "status": "completed",
    "stop_reason": "end_turn",
}
"""Values that an answer has where it is one."""
FREE: Final = frozenset({"action", "args", "arguments", "input", "response", "tools"})
"""Objects which are passed on as data, with whatever is in them: there null is a value."""


def fabricate(annotation: Any, within: Sequence[Any] = ()) -> Any:
    """Make a value with all of its fields; a list has one item of each possible kind."""
    members = [each for each in spread(annotation) if each is not type(None)]
    if any(typing.get_origin(each) is typing.Literal for each in members):
        members = [each for each in members if typing.get_origin(each) is typing.Literal]
    kind = members[0]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return args[0]
    if origin in (list, collections.abc.Sequence):
        if args[0] is Part:
            return [{name: value} for name, value in fabricate(Part, within).items()]
        return [fabricate(each, within) for each in spread(args[0]) if each not in within]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind)).value
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return PLAIN.get(kind, {})
    hints = survey_fields(kind)[0].items()
    fields = {
        name: SPECIAL.get(name) if name in SPECIAL else fabricate(hint, (*within, kind))
        for name, hint in hints
        if not set(spread(hint)) & {*within, kind}
    }
    return fields


@functools.cache
def access_bodies(protocol: str) -> list[Any]:
    declared = TYPES.get(protocol)
    return [*produce_bodies(protocol), *([fabricate(declared)] if declared else [])]


def strip(value: Any) -> Any:
    """Remove null values from data that are passed on unchanged."""
    if isinstance(value, dict):
        return {name: strip(each) for name, each in value.items() if each is not None}
    return value


def summarize(response: Response) -> Any:
    """Return the common fields of a response."""

    def is_common(field: attrs.Attribute[Any], value: Any) -> bool:
        return field.name not in ("native", "id", "timestamp", "turn_id", "invocation_id")

    common = [attrs.asdict(each, filter=is_common) for each in response.canisters]
    for fields in common:
        if fields.get("owner") is Owner.VENDOR:  # which shows the vendor's fields as they are
            fields.pop("content", None)
        if fields.get("form") == "json":
            with contextlib.suppress(ValueError):  # they may be no JSON where one has gone
                fields["arguments"] = strip(json.loads(fields["arguments"]))
    return [*common, response.metadata.origin.stop_reason]


def write(protocol: str, response: Response) -> None:
    """Write an answer as its vendor would."""
    importlib.import_module(f"vibe_llms.dialects.{protocol}").nativize_response(response)


def walk_keys(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every key that has a meaning for the vendor."""
    for place in walk_paths(value):
        if isinstance(place[-1], str) and not FREE & set(place[:-1]):
            yield place


def compare(
    protocol: str, read: Callable[[Any], Response], value: Any, place: tuple[Any, ...]
) -> str | None:
    """Return the differences between a null field and an absent one."""
    try:
        without = read(replace_at(value, place, ABSENT))
    except ConverseError:
        return None
    try:
        null = read(replace_at(value, place, None))
        write(protocol, null)
    except Exception as error:
        return f"{place}: {type(error).__name__}: {error}"
    is_same = summarize(null) == summarize(without)
    return None if is_same else f"{place}: {summarize(null)} != {summarize(without)}"


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_null_in_a_complete_answer_means_absent(protocol: str) -> None:
    """At any depth."""

    def read(body: Any) -> Response:
        return read_body(protocol, msgspec.json.encode(body))

    differences = [
        compare(protocol, read, body, place)
        for body in access_bodies(protocol)
        for place in sample(walk_keys(body))
    ]

    assert list(filter(None, differences)) == []


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_null_in_a_stream_means_absent(protocol: str) -> None:
    """In any of its events."""
    differences = []
    for frames in produce_streams(protocol):
        for number, (data, _) in enumerate(frames):
            if data.startswith(b"{"):
                fields = msgspec.json.decode(data)
                read = functools.partial(read_changed, protocol, frames, number)
                places = sample(walk_keys(fields))
                differences += [compare(protocol, read, fields, at) for at in places]

    assert len(differences) > 20
    assert list(filter(None, differences)) == []


def read_changed(protocol: str, frames: list[Frame], number: int, fields: Any) -> Response:
    """Read a stream with one replaced event."""
    changed = (msgspec.json.encode(fields), frames[number][1])
    return read_stream(protocol, [*frames[:number], changed, *frames[number + 1 :]])
