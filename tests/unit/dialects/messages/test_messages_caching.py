"""Cache hints as Anthropic's marks, within its rules, and back."""

from __future__ import annotations

import copy
from typing import Any

import attrs
import pytest

from support.vendors.messages_exchanges import KNOWN
from vibe_llms.dialects.messages import (
    Quirks,
    nativize_request,
    normalize_request,
    produce_processors,
)
from vibe_llms.dialects.messages.calling.messages import nativize_canisters
from vibe_llms.messages.canisters import (
    AnyCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import LossGrade, Translation
from vibe_llms.messages.requests import Request

SHORT, LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
TOOL = InvocableDescription(name="f", description="Does it.", schema={"type": "object"})


def write(*canisters: AnyCanister, **fields: Any) -> tuple[Any, list[str]]:
    """Return the body of a request, and the paths of losses of form."""
    request = Request(canisters=canisters, controls={"max_tokens": 9}, **fields)
    translation = nativize_request(request, KNOWN, Quirks())
    assert all(loss.grade is LossGrade.FORM for loss in translation.losses)
    return translation.value, [loss.path for loss in translation.losses]


def list_marked(body: Any) -> list[str]:
    """Return the texts of the marked blocks of the conversation."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [block["text"] for block in blocks if "cache_control" in block]


def test_a_mark_is_on_the_block_before_it() -> None:
    body, losses = write(
        SupervisorCanister(["Be brief.", CacheHint("1h")]),
        UserCanister(["Read this.", CacheHint(), "What is it?"]),
    )
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": LONG}]
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "Read this.", "cache_control": SHORT},
        {"type": "text", "text": "What is it?"},
    ]
    assert losses == []


def test_calls_results_documents_and_tools_have_marks() -> None:
    call = InvocationCanister((CacheHint(),), invocation_id="c", name="f")
    body, losses = write(
        DocumentCanister(["A long text.", CacheHint()]),
        call,
        ResultCanister(["A sea.", CacheHint()], invocation_id="c", name="f"),
        invocables=[TOOL, CacheHint("1h")],
    )
    document, (use,), (result,) = (message["content"] for message in body["messages"])
    assert document[-1]["cache_control"] == use["cache_control"] == SHORT
    assert result["cache_control"] == SHORT
    assert result["content"] == [{"type": "text", "text": "A sea."}]
    assert body["tools"][0]["cache_control"] == LONG
    assert losses == []


def test_the_growing_prefix_has_one_mark() -> None:
    body, losses = write(UserCanister("a"), cache=CacheHint("5m", key="k"))
    assert body["cache_control"] == {"type": "ephemeral", "ttl": "5m"}
    assert losses == ["cache.key"]


def test_a_mark_without_a_block_is_reported() -> None:
    body, losses = write(UserCanister("a"), UserCanister([CacheHint(), "c"]))
    assert list_marked(body) == []
    assert losses == ["canisters[1].content[0]"]


@pytest.mark.parametrize("count", [4, 5, 7])
def test_the_oldest_marks_of_the_conversation_are_omitted(count: int) -> None:
    """Those of tools and instructions stay: other conversations share them."""
    talk = [UserCanister([str(number), CacheHint()]) for number in range(count - 2)]
    body, losses = write(
        SupervisorCanister(["s", CacheHint()]), *talk, invocables=[TOOL, CacheHint()]
    )
    assert "cache_control" in body["tools"][0]
    assert "cache_control" in body["system"][0]
    kept = [str(number) for number in range(count - 4, count - 2)]
    assert list_marked(body) == kept
    assert losses == [f"canisters[{number + 1}].content[1]" for number in range(count - 4)]


def test_a_long_lifetime_after_a_short_one_is_shortened() -> None:
    """The vendor answers with status 400."""
    body, losses = write(UserCanister(["a", CacheHint(), "b", CacheHint("1h"), "c"]))
    marks = [block.get("cache_control") for block in body["messages"][0]["content"]]
    assert marks == [SHORT, {**SHORT, "ttl": "5m"}, None]
    assert losses == ["canisters[0].content[3].lifetime"]


@pytest.mark.parametrize(("asked", "sent"), [("1m", "5m"), ("30m", "1h"), ("24h", "1h")])
def test_another_lifetime_is_rounded_and_reported(asked: str, sent: str) -> None:
    body, losses = write(UserCanister(["a", CacheHint(asked)]))
    assert body["messages"][0]["content"][0]["cache_control"]["ttl"] == sent
    assert losses == ["canisters[0].content[1].lifetime"]


def test_a_request_of_a_client_comes_back() -> None:
    """With marks in every place, and of an unknown kind."""
    text = {"type": "text", "text": "a", "cache_control": LONG}
    body: dict[str, Any] = {
        "model": "model",
        "max_tokens": 9,
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object",
                   "properties": {}}, "cache_control": LONG}],
        "messages": [
            {"role": "user", "content": [text]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c", "name": "f", "input": {}, "cache_control": SHORT}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c",
                 "content": [{"type": "text", "text": "r", "cache_control": {"type": "new"}}]}]},
        ],
    }  # fmt: skip
    original = copy.deepcopy(body)
    read = normalize_request(body)
    assert read.value.canisters[0].content[1] == CacheHint("1h")
    assert read.value.invocables[0].cache == CacheHint("1h")
    written = nativize_request(read.value, KNOWN, Quirks())
    assert written.value == original
    assert written.losses == read.losses == ()


def test_the_mark_of_a_whole_request_comes_back() -> None:
    body = {
        "model": "model",
        "max_tokens": 9,
        "cache_control": LONG,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
    }
    request = normalize_request(body).value
    assert request.cache == CacheHint("1h")
    assert nativize_request(request, KNOWN, Quirks()).value == body


def test_a_shared_translation_stays_as_it_was() -> None:
    """Removing the oldest mark copies what it changes, as later requests use the messages, too."""
    talk = tuple(UserCanister([str(number), CacheHint()]) for number in range(5))
    request = Request(canisters=talk, controls={"max_tokens": 9})
    messages = nativize_canisters(talk, KNOWN, Quirks()).value
    before = copy.deepcopy(messages)

    class Shared:
        def nativize(self, request: Request, model: object) -> Any:
            return Translation(messages)

    processors: Any = attrs.evolve(produce_processors(Quirks()), messages=Shared())
    body = nativize_request(request, KNOWN, Quirks(), processors=processors).value
    assert len(list_marked(body)) == 4
    assert messages == before
