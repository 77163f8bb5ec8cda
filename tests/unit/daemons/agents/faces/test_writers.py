"""What the faces write for steps that few runs have: refusals, citations, vendors' calls, media."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from vibe_llms.daemons.agents.faces.a2a_tasks import TaskName, TaskWriter
from vibe_llms.daemons.agents.faces.ag_ui_events import EventWriter
from vibe_llms.daemons.agents.faces.ai_sdk_chunks import ChunkWriter
from vibe_llms.daemons.agents.faces.answers import AnswerFold
from vibe_llms.daemons.agents.faces.steps import PartGrown, PartsWithdrawn, Step
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import (
    Citation,
    ImageContent,
    Native,
    NativeContent,
    RefusalContent,
    TextualContent,
)

NATIVE = Native(protocol="messages", data="{}")
ITEMS: tuple[Any, ...] = (
    RefusalContent("I will not."),
    TextualContent(
        "See there.",
        citations=(
            Citation(url="https://a.example/", title="A", cited_text="Quote."),
            Citation(file_id="f-1", start=0, end=3),
        ),
    ),
    NativeContent(kind="compaction", native=NATIVE, text="Shorter."),
    ImageContent(data=b"\x89PNG\r\n\x1a\n", name="x.png"),
    ImageContent(file_id="file-1", native=NATIVE, mime_type="image/png"),
    InvocationCanister(
        invocation_id="v", name="search", arguments='{"q": 1}', owner=Owner.VENDOR, native=NATIVE
    ),
    ResultCanister("Found.", invocation_id="v", owner=Owner.VENDOR),
    InvocationCanister(invocation_id="w", name="broken", arguments='{"q": '),
)


def list_steps() -> Iterator[Step]:
    """Yield the steps of an answer with all these."""
    yield from AnswerFold("r.1").end(ITEMS)


def produce_writer(name: str) -> Any:
    """Return the writer of a face."""
    if name == "ag-ui":
        return EventWriter("t", "r")
    if name == "ai-sdk":
        return ChunkWriter("r", "m")
    return TaskWriter(1, TaskName(conversation="r", sequence=1))


@pytest.mark.parametrize("name", ["ag-ui", "ai-sdk", "a2a"])
def test_nothing_of_an_answer_is_left_out(name: str) -> None:
    writer = produce_writer(name)
    told = str([event for step in list_steps() for event in writer.write(step)])
    words = ["I will not.", "refusal", "See there.", "https://a.example/", "Quote.", "f-1"]
    words += ["compaction", "Shorter.", "iVBORw0KGgo=", "x.png", "image/png", "search", "Found."]
    words += ["broken", '{"q": ']
    assert [each for each in words if each not in told] == []


@pytest.mark.clients
def test_official_models_read_rare_events() -> None:
    from a2a.types import a2a_pb2
    from ag_ui.core import Event
    from google.protobuf.json_format import ParseDict
    from pydantic import TypeAdapter

    read: Any = TypeAdapter(Event).validate_python
    for step in list_steps():
        for event in produce_writer("ag-ui").write(step):
            read(event)
        for event in produce_writer("a2a").write(step):
            ParseDict(event["result"], a2a_pb2.StreamResponse())


def test_a_vendors_call_is_told_as_the_vendors() -> None:
    writer = produce_writer("ai-sdk")
    chunks = [chunk for step in list_steps() for chunk in writer.write(step)]
    executed = {
        each["toolCallId"]: each.get("providerExecuted") for each in chunks if "toolCallId" in each
    }
    assert executed == {"r.1.5": True, "r.1.7": None}
    (invalid,) = [each for each in chunks if each.get("input") == '{"q": ']
    assert invalid["type"] == "tool-input-available"
    assert all(each["url"] for each in chunks if each["type"] == "file")  # others are custom parts


def test_a_withdrawal_closes_what_is_open() -> None:
    writer = produce_writer("ag-ui")
    steps = [*list_steps()][:2]
    events = [event for step in steps for event in writer.write(step)]
    assert [each["type"] for each in events] == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
    withdrawn = [*writer.write(PartsWithdrawn(conversation=()))]
    assert [each["type"] for each in withdrawn] == ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT"]
    assert not [*writer.write(PartGrown(id="r.1.0", kind="text", text="x"))]
