"""Joined texts are reported in protocols with one text per message."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from fidelity.parties import BY_NAME
from vibe_llms.messages.canisters import AssistantCanister, Origin, UserCanister
from vibe_llms.messages.contents import ReasoningContent
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

QUESTION = UserCanister("Well?")
CONVERSATION = (
    AssistantCanister("Let me see.", turn_id="t"),
    AssistantCanister("It rains.", turn_id="t"),
)
THOUGHT = (
    AssistantCanister([ReasoningContent(text="Hm.")], turn_id="t"),
    AssistantCanister(
        [ReasoningContent(text="Rain."), ReasoningContent(summary=("Sun.",))], turn_id="t"
    ),
)
ONE_TEXT = ("chat_completions", "ollama_chat")
"""The protocols whose messages have one text, and one reasoning."""


@pytest.mark.parametrize("name", ["openai", "ollama"])
def test_joined_texts_of_two_messages_are_reported(name: str) -> None:
    written = BY_NAME[name].nativize(Request(canisters=[QUESTION, *CONVERSATION, QUESTION]))

    messages: Any = written.value["messages"]
    assert [each["content"] for each in messages][1] == "Let me see.\n\nIt rains."
    assert [str(loss.kind) for loss in written.losses if "canisters[2]" in loss.path] == ["coerced"]


def answer(protocol: str, canisters: tuple[AssistantCanister, ...]) -> Any:
    """Return the answer for a client of a protocol, and the paths of the losses."""
    origin = Origin(provider="parrot", model="m", protocol="words", response_id="r")
    metadata = ResponseMetadata(origin=origin, duration_seconds=0.0)
    response = Response(
        request=Request(canisters=[QUESTION]), canisters=canisters, metadata=metadata
    )
    dialect = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    written = dialect.nativize_response(response)
    body = written.value
    message = body["message"] if protocol == "ollama_chat" else body["choices"][0]["message"]
    return message, [loss.path for loss in written.losses]


@pytest.mark.parametrize("protocol", ONE_TEXT)
def test_joined_texts_of_an_answer_are_reported(protocol: str) -> None:
    message, lost = answer(protocol, CONVERSATION)
    assert message["content"] == "Let me see.\n\nIt rains."
    assert "canisters[1].content" in lost


@pytest.mark.parametrize("protocol", ONE_TEXT)
def test_joined_reasoning_of_an_answer_is_reported(protocol: str) -> None:
    message, lost = answer(protocol, THOUGHT)
    thought = message["thinking" if protocol == "ollama_chat" else "reasoning_content"]
    assert thought == "Hm.\n\nRain.\n\nSun."
    assert {f"canisters[1].content[{index}]" for index in (0, 1)} <= {*lost}
    assert "canisters[1].content[1].summary" in lost
