"""Turns of a model that are one message, in Chat Completions and Ollama."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_llms.dialects import chat_completions, ollama_chat
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.contents import Citation, ImageContent, TextualContent
from vibe_llms.messages.requests import Request
from vibe_llms.models.integrators import ModelsIntegrator

MODEL = ModelsIntegrator(provider="vendor").integrate("model")
PIXEL = ImageContent(mime_type="image/png", data=b"\x89PNG\r\n\x1a\n")

each_dialect = pytest.mark.parametrize("dialect", [chat_completions, ollama_chat])


def write(dialect: Any, *canisters: AnyCanister) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the messages after the user's first one, and the places of losses."""
    request = Request(canisters=[UserCanister("?"), *canisters, UserCanister("And?")])
    written = dialect.nativize_request(request, MODEL, dialect.Quirks())
    return written.value["messages"][1:], [loss.path for loss in written.losses]


def call(identity: str, turn: str, owner: Owner = Owner.OURS) -> InvocationCanister:
    """Make a call."""
    return InvocationCanister(invocation_id=identity, name="look", turn_id=turn, owner=owner)


def result(identity: str, turn: str | None = None, owner: Owner = Owner.OURS) -> ResultCanister:
    """Make a result."""
    return ResultCanister("Seen.", invocation_id=identity, turn_id=turn, owner=owner)


@each_dialect
def test_calls_around_an_execution_are_one_message(dialect: Any) -> None:
    """The vendor's own call is withheld, but does not end the turn."""
    messages, losses = write(
        dialect,
        call("a", "t"),
        call("v", "t", Owner.VENDOR),
        result("v", "t", Owner.VENDOR),
        call("b", "t"),
        result("a"),
        result("b"),
    )

    assert [each["role"] for each in messages] == ["assistant", "tool", "tool", "user"]
    assert [each["id"] for each in messages[0]["tool_calls"]] == ["a", "b"]
    assert losses == ["canisters[2]", "canisters[3]"]


@each_dialect
def test_a_result_of_an_execution_does_not_end_a_turn(dialect: Any) -> None:
    """Not after the first call, either."""
    messages, _ = write(
        dialect,
        call("a", "t"),
        result("v", "t", Owner.VENDOR),
        call("b", "t"),
        result("a"),
        result("b"),
    )

    assert [len(each.get("tool_calls", ())) for each in messages] == [2, 0, 0, 0]


@each_dialect
def test_the_result_of_an_execution_is_not_sent(dialect: Any) -> None:
    """Not even as a text of the model."""
    messages, losses = write(dialect, result("v", "t", Owner.VENDOR))

    assert messages == [{"role": "user", "content": "And?"}]
    assert losses == ["canisters[1]"]


@each_dialect
def test_losses_are_in_the_order_of_the_conversation(dialect: Any) -> None:
    """An execution is withheld after the losses of the turn before it."""
    cited = TextualContent("Wet.", citations=[Citation(title="Rain", cited_text="wet")])
    _, losses = write(
        dialect,
        AssistantCanister(cited, turn_id="s"),
        call("v", "t", Owner.VENDOR),
        result("v", "t", Owner.VENDOR),
        AssistantCanister("So.", turn_id="t"),
    )

    assert losses == ["canisters[1].content[0].citations", "canisters[2]", "canisters[3]"]


def test_media_of_results_are_sent_before_the_next_message() -> None:
    """In one dialect, a message of the user has them."""
    seen = ResultCanister([PIXEL], invocation_id="a")
    messages, _ = write(chat_completions, call("a", "t"), seen)

    assert [each["role"] for each in messages] == ["assistant", "tool", "user", "user"]
    assert messages[2]["content"][0]["type"] == "image_url"
    assert messages[3]["content"] == "And?"
