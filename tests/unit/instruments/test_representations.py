"""What a shell shows of a value fits a line, however much the value holds."""

from __future__ import annotations

import inspect
from typing import Any

import attrs
import pytest

import vibe_llms
from vibe_llms import (
    AssistantCanister,
    Canister,
    Content,
    Conversation,
    DocumentCanister,
    Engine,
    FileContent,
    ImageContent,
    InvocableDescription,
    InvocationCanister,
    Model,
    NativeContent,
    Parser,
    Prompt,
    ReasoningContent,
    RefusalContent,
    Request,
    Response,
    ResultCanister,
    SupervisorCanister,
    SyncEngine,
    SyncModel,
    TextualContent,
    UserCanister,
    invocable,
)
from vibe_llms.foundation.reprs import LINE_CHARACTERS, represent
from vibe_llms.messages.canisters import Origin, Usage
from vibe_llms.messages.contents import AudioContent, Citation, Native, VideoContent
from vibe_llms.messages.requests import ResponseMetadata

LONG = "The sea is wide,\nand deep, and blue. " * 30_000
DATA = bytes(3_000_000)
NATIVE = Native(protocol="messages", data=LONG)
ORIGIN = Origin(
    provider="p" * 50, model="m" * 50, usage=Usage(input_tokens=3, output_tokens=5, native=LONG)
)
MEDIA = [
    kind(mime_type=mime_type, data=DATA)
    for kind, mime_type in (
        (ImageContent, "image/png"),
        (AudioContent, "audio/wav"),
        (VideoContent, "video/mp4"),
        (FileContent, "application/pdf"),
    )
]
CONTENTS: list[Any] = [
    TextualContent(LONG, citations=[Citation(title=LONG, url=LONG)] * 50, native=NATIVE),
    *MEDIA,
    ReasoningContent(text=LONG, summary=[LONG, LONG], signature=LONG),
    RefusalContent(LONG),
    NativeContent(kind="x" * 300, native=NATIVE),
]
CALL: dict[str, Any] = {"invocation_id": "i" * 90, "name": "n" * 64, "native": NATIVE}
CANISTERS: list[Any] = [
    UserCanister(CONTENTS),
    UserCanister(LONG),
    SupervisorCanister(LONG),
    DocumentCanister(LONG, title=LONG),
    AssistantCanister(CONTENTS, origin=ORIGIN, native=NATIVE),
    InvocationCanister(arguments=LONG, origin=ORIGIN, **CALL),
    ResultCanister(LONG, is_error=True, **CALL),
]
TOOL = InvocableDescription(name="look", description=LONG, schema={"type": "object", "x": LONG})
REQUEST = Request(
    canisters=[*CANISTERS, UserCanister(LONG)] * 200, invocables=[TOOL], schema={"title": LONG}
)


@invocable
def look(place: str) -> str:
    """Looks."""
    return place


INSTRUMENTS: list[Any] = [
    Model("local:smollm2", temperature=0.2, stop=[LONG, LONG]),
    SyncModel("x" * 300),
    Engine("local:smollm2", [look]),
    SyncEngine(SyncModel("local:smollm2"), [look] * 1),
    Conversation(canisters=CANISTERS),
    Parser({"type": "object", "title": LONG}),
    Prompt("Hello {{ name }}. " * 2_000),
    REQUEST,
    Response(
        request=REQUEST,
        canisters=[AssistantCanister(LONG, origin=ORIGIN)],
        metadata=ResponseMetadata(origin=ORIGIN),
    ),
    TOOL,
    ORIGIN,
]


@pytest.mark.parametrize(
    "value", [*CONTENTS, *CANISTERS, *INSTRUMENTS], ids=lambda value: type(value).__name__
)
def test_it_fits_a_line(value: Any) -> None:
    """Megabytes of words or media are shortened, and the kind of the value comes first."""
    shown = repr(value)

    assert shown.startswith(type(value).__name__.lstrip("_"))
    assert len(shown) <= LINE_CHARACTERS + 80  # an address is never cut
    assert "\n" not in shown


def test_a_large_part_leaves_the_others_room() -> None:
    """What comes first is named, and what comes after it is shown."""
    metadata = ResponseMetadata(origin=ORIGIN, attempts=3)

    assert repr(metadata) == "ResponseMetadata(origin=Origin(…), attempts=3)"


def test_every_public_class_says_what_it_is() -> None:
    """None shows as a bare address in memory, so that a list of them can be read."""
    silent = [
        name
        for name in vibe_llms.__all__
        if inspect.isclass(kind := getattr(vibe_llms, name))
        and kind.__repr__ is object.__repr__
        and not getattr(kind, "_is_protocol", False)
    ]

    assert not silent


def test_what_a_value_is_shows() -> None:
    """What differs from the default is there, the most telling first."""
    assert repr(UserCanister("Hello")) == "UserCanister([TextualContent('Hello')])"
    assert repr(ImageContent(mime_type="image/png", data=b"1")).startswith(
        "ImageContent(mime_type='image/png'"
    )
    assert repr(Model("local:smollm2", temperature=0.2)) == (
        "Model('local:smollm2', temperature=0.2)"
    )
    assert represent("Name", [("a", None), ("b", list(range(99)))]) == "Name(a=None, b=<99 int>)"


@pytest.mark.parametrize("canister", CANISTERS, ids=lambda value: type(value).__name__)
def test_canisters_have_text(canister: Any) -> None:
    """The words of any canister are at hand, without its reasoning."""
    assert canister.text == (LONG if canister.role != "invocation" else "")[: len(canister.text)]
    assert isinstance(canister, Canister)
    assert all(isinstance(content, Content) for content in canister.content)
    assert "text" not in {field.name for field in attrs.fields(type(canister))}
