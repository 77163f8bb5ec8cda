"""Canisters as OpenTelemetry's conventions want messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import canisters
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.contents import FileContent, ImageContent
from vibe_llms.telemetry.opentelemetry.messages import (
    describe_input,
    describe_output,
    split_instructions,
    write,
)

REQUIRED = {
    "text": {"content": str},
    "reasoning": {"content": str},
    "tool_call": {"name": str},
    "tool_call_response": {"response": str},
    "server_tool_call": {"name": str, "server_tool_call": dict},
    "server_tool_call_response": {"server_tool_call_response": dict},
    "uri": {"modality": str, "uri": str},
    "file": {"modality": str, "file_id": str},
}
"""What the schemas of the conventions require of the parts that they know."""


def _check(messages: Any) -> None:
    for message in messages:
        assert message["role"] in ("system", "user", "assistant", "tool")
        for part in message["parts"]:
            for name, kind in REQUIRED.get(part["type"], {}).items():
                assert isinstance(part[name], kind), part


@given(st.lists(canisters, max_size=5))
def test_whatever_was_said_has_the_form_of_the_schemas(said: Sequence[AnyCanister]) -> None:
    """Every part has its type and what that type requires, and all of it is JSON."""
    instructions, history = split_instructions(said)

    _check(json.loads(write(describe_input(history))))
    _check(json.loads(write(describe_output(said, StopReason.ANSWERED))))
    _check([{"role": "system", "parts": instructions}])
    assert all(canister.role != "supervisor" for canister in history[:1])


def test_bytes_are_left_out() -> None:
    """A picture is told by its kind; one that is elsewhere by where it is."""
    picture = ImageContent(mime_type="image/png", data=b"\x89PNG" * 1000)
    there = ImageContent(mime_type="image/png", url="https://example.org/cat.png")
    kept = FileContent(mime_type="application/pdf", file_id="file-1")

    (message,) = describe_input([UserCanister([picture, there, kept])])

    assert message["parts"] == [
        {"type": "media", "mime_type": "image/png", "modality": "image", "name": None},
        {
            "type": "uri",
            "mime_type": "image/png",
            "modality": "image",
            "uri": "https://example.org/cat.png",
        },
        {
            "type": "file",
            "mime_type": "application/pdf",
            "modality": "document",
            "file_id": "file-1",
        },
    ]


def test_what_a_vendor_executed_belongs_into_its_answer() -> None:
    """Its calls and their results are parts of the assistant's message, told as the vendor's."""
    call = InvocationCanister(
        invocation_id="s1", name="web_search", arguments='{"q": "x"}', owner=Owner.VENDOR
    )
    result = ResultCanister("found", invocation_id="s1", name="web_search", owner=Owner.VENDOR)

    (message,) = describe_input([call, result])

    assert message["role"] == "assistant"
    kinds = [part["type"] for part in message["parts"]]
    assert kinds == ["server_tool_call", "server_tool_call_response"]


def test_arguments_that_are_no_json_stay_as_they_are() -> None:
    """A model may write anything; it is shown what it wrote."""
    (message,) = describe_input(
        [InvocationCanister(invocation_id="c", name="f", arguments="{oops")]
    )

    assert message["parts"][0]["arguments"] == "{oops"
