"""Separate texts stay separated in protocols with one text per message."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from fidelity.conversations import ask, produce_request
from fidelity.parties import PARTIES, Party
from vibe_llms.dialects import chat_completions, ollama_chat
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import AnyContent, Citation, ReasoningContent, TextualContent
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

LOOKED, SAID = "I will look.", "Paris"
CALL = InvocationCanister(invocation_id="abcdefghi", name="look", turn_id="t")
RESULT = ResultCanister("Seen.", invocation_id="abcdefghi", name="look")
SEARCH = InvocationCanister(
    invocation_id="s", name="search", owner=Owner.VENDOR, turn_id="t", arguments="{}"
)
ORIGIN = Origin(provider="vendor", model="m", protocol="elsewhere", stop_reason=StopReason.ANSWERED)


def produce_turn(*contents: AnyContent | str) -> AssistantCanister:
    """Make the canisters of one turn of a model."""
    items = [TextualContent(each) if isinstance(each, str) else each for each in contents]
    return AssistantCanister(items, turn_id="t", origin=ORIGIN)


each_party = pytest.mark.parametrize("party", PARTIES, ids=lambda party: party.name)
each_turn = pytest.mark.parametrize(
    "turn",
    [
        [produce_turn(LOOKED), CALL, produce_turn(SAID)],
        [produce_turn(LOOKED), SEARCH, produce_turn(SAID)],
        [produce_turn(LOOKED), produce_turn(SAID)],
        [produce_turn(LOOKED, ReasoningContent(text="Hm."), SAID)],
    ],
    ids=["call", "vendor's call", "two canisters", "reasoning"],
)


@each_party
@each_turn
def test_texts_of_one_turn_are_separated(party: Party, turn: Sequence[AnyCanister]) -> None:
    """In the history for any vendor."""
    results = [RESULT] if CALL in turn else []

    history = (ask("Well?"), *turn, *results, ask("And?"))
    body = json.dumps(party.nativize(produce_request(history)).value)

    assert LOOKED in body
    assert LOOKED + SAID not in body


@pytest.mark.parametrize("dialect", [chat_completions, ollama_chat])
@each_turn
def test_an_answer_has_the_text_of_its_response(dialect: Any, turn: Sequence[AnyCanister]) -> None:
    """The text of a response equals that of the message that it is written as."""
    response = Response(
        request=Request(canisters=[UserCanister("Well?")]),
        canisters=turn,
        metadata=ResponseMetadata(origin=ORIGIN),
    )

    body = dialect.nativize_response(response).value
    message = body["message"] if "message" in body else body["choices"][0]["message"]

    assert message["content"] == response.text == f"{LOOKED}\n\n{SAID}"


@pytest.mark.parametrize("dialect", [chat_completions, ollama_chat])
def test_adjacent_texts_are_joined_without_a_separator(dialect: Any) -> None:
    """Vendors divide a sentence at its citations; it is joined as it was streamed, with a loss."""
    cited = TextualContent("the sea is deep", citations=[Citation(url="https://example.com")])
    response = Response(
        request=Request(canisters=[UserCanister("Well?")]),
        canisters=[produce_turn("They say ", cited, ".")],
        metadata=ResponseMetadata(origin=ORIGIN),
    )

    translation = dialect.nativize_response(response)

    body = translation.value
    message = body["message"] if "message" in body else body["choices"][0]["message"]
    assert message["content"] == response.text == "They say the sea is deep."
    assert "canisters[0].content" in [loss.path for loss in translation.losses]


@each_party
@pytest.mark.parametrize("kind", ["user", "supervisor", "document", "result"])
def test_texts_of_other_roles_are_separated(party: Party, kind: str) -> None:
    """They stay separate texts, or are joined by empty lines, with a loss."""
    texts = ('{"a":1}', '{"b":2}')
    canisters: dict[str, list[AnyCanister]] = {
        "user": [UserCanister(texts)],
        "supervisor": [SupervisorCanister(texts), ask("Well?")],
        "document": [DocumentCanister(texts), ask("Well?")],
        "result": [
            ask("Look."),
            CALL,
            ResultCanister(texts, invocation_id="abcdefghi", name="look"),
        ],
    }

    translation = party.nativize(produce_request(canisters[kind]))

    body = json.dumps(translation.value)
    place = next(i for i, each in enumerate(canisters[kind]) if len(each.content) > 1)
    losses = [loss for loss in translation.losses if loss.path.startswith(f"canisters[{place}]")]
    joined = json.dumps("\n\n".join(texts))[1:-1]
    assert json.dumps(texts[0] + texts[1])[1:-1] not in body
    assert joined not in body or losses
