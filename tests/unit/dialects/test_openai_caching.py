"""Cache hints in OpenAI's dialects and OpenRouter's, and their absence elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_llms.dialects import chat_completions, generate_content, messages, ollama_chat, responses
from vibe_llms.dialects.chat_completions.quirks import Quirks as ChatQuirks
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import CacheHint, ReasoningContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import LossGrade
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.integrators import ModelsIntegrator

UNKNOWN = ModelsIntegrator(provider="p").integrate("m")
OLD = ModelsIntegrator(provider="p").integrate("m", facts={"supports_cache_breakpoints": False})
DIALECTS: dict[str, tuple[Any, Any]] = {
    "chat": (chat_completions, ChatQuirks()),
    "responses": (responses, responses.Quirks()),
}
TALK = (
    SupervisorCanister(["Be brief.", CacheHint("12h")]),
    UserCanister(["Read this.", CacheHint(), "What is it?"]),
)
EXPLICIT = {"mode": "explicit"}


def write(
    name: str, *canisters: AnyCanister, attributes: ModelAttributes = UNKNOWN, **fields: Any
) -> tuple[Any, list[str]]:
    """Return a body, and the paths of losses of form."""
    dialect, quirks = DIALECTS[name]
    translation = dialect.nativize_request(
        Request(canisters=canisters, **fields), attributes, quirks, provider="p"
    )
    assert all(loss.grade is LossGrade.FORM for loss in translation.losses), translation.losses
    return translation.value, [loss.path for loss in translation.losses]


def list_parts(name: str, body: Any) -> list[Any]:
    """Return the parts of a body's messages without their types."""
    items = body["messages" if name == "chat" else "input"]
    return [
        {key: value for key, value in part.items() if key != "type"}
        for item in items
        for part in item["content"]
    ]


@pytest.mark.parametrize("name", DIALECTS)
def test_contents_have_breakpoints(name: str) -> None:
    body, losses = write(name, *TALK)
    assert list_parts(name, body) == [
        {"text": "Be brief.", "prompt_cache_breakpoint": {**EXPLICIT, "ttl": "12h"}},
        {"text": "Read this.", "prompt_cache_breakpoint": EXPLICIT},
        {"text": "What is it?"},
    ]
    assert losses == []


@pytest.mark.parametrize("name", DIALECTS)
def test_breakpoints_come_back_from_a_client(name: str) -> None:
    dialect, quirks = DIALECTS[name]
    body, _ = write(name, *TALK, model="m")
    request = dialect.normalize_request(body).value
    assert [content for each in request.canisters for content in each.content if
            isinstance(content, CacheHint)] == [CacheHint("12h"), CacheHint()]  # fmt: skip
    assert dialect.nativize_request(request, UNKNOWN, quirks).value == body


def test_a_content_of_an_unknown_form_keeps_its_breakpoint() -> None:
    part = {"type": "input_image", "detail": "low", "prompt_cache_breakpoint": EXPLICIT}
    body = {"model": "m", "input": [{"role": "user", "content": [part]}]}
    request = responses.normalize_request(body).value
    written = responses.nativize_request(request, UNKNOWN, responses.Quirks())
    assert written.value == body
    assert not written.losses


@pytest.mark.parametrize("name", DIALECTS)
def test_an_older_model_caches_by_itself(name: str) -> None:
    """Its hints are reported, with their paths, and so are the losses behind them."""
    late = UserCanister(["a", CacheHint(), ReasoningContent(text="hm")])
    dialect, quirks = DIALECTS[name]
    request = Request(canisters=(*TALK, AssistantCanister("b"), late))
    translation = dialect.nativize_request(request, OLD, quirks)
    assert "prompt_cache" not in str(translation.value)
    assert [loss.path for loss in translation.losses] == [
        "canisters[0].content[1]",
        "canisters[1].content[1]",
        "canisters[3].content[1]",
        "canisters[3].content[2]",
    ]


@pytest.mark.parametrize("name", DIALECTS)
def test_an_answer_cannot_have_a_breakpoint(name: str) -> None:
    origin = Origin(provider="other", model="m")
    answer = AssistantCanister(["b", CacheHint()], origin=origin)
    body, losses = write(name, UserCanister("a"), answer, UserCanister("c"))
    assert "prompt_cache" not in str(body)
    assert losses == ["canisters[1].content[1]"]


@pytest.mark.parametrize("name", DIALECTS)
def test_the_key_is_that_of_the_request_or_of_its_last_mark(name: str) -> None:
    body, _ = write(name, UserCanister(["a", CacheHint(key="one")]))
    assert body["prompt_cache_key"] == "one"
    body, _ = write(name, UserCanister(["a", CacheHint(key="one")]), cache=CacheHint(key="two"))
    assert body["prompt_cache_key"] == "two"


@pytest.mark.parametrize(
    ("name", "model", "lifetime", "field", "value"),
    [
        ("chat", UNKNOWN, "5m", "prompt_cache_options", {"ttl": "30m"}),
        ("chat", UNKNOWN, "1h", "prompt_cache_retention", "24h"),
        ("responses", UNKNOWN, "5m", "prompt_cache_options", {"ttl": "30m"}),
        ("responses", UNKNOWN, "1h", "prompt_cache_options", {"ttl": "12h"}),
        ("responses", UNKNOWN, "24h", "prompt_cache_retention", "24h"),
        ("responses", OLD, "1h", "prompt_cache_retention", "24h"),
    ],
)
def test_a_lifetime_is_at_least_as_long(
    name: str, model: ModelAttributes, lifetime: str, field: str, value: Any
) -> None:
    body, losses = write(name, UserCanister("a"), attributes=model, cache=CacheHint(lifetime))
    assert {key: each for key, each in body.items() if key.startswith("prompt_")} == {field: value}
    assert losses == []


def test_a_lifetime_that_only_the_vendor_decides_is_reported() -> None:
    body, losses = write("chat", UserCanister("a"), attributes=OLD, cache=CacheHint("30m"))
    assert "prompt_cache" not in str(body)
    assert losses == ["cache.lifetime"]
    assert write("chat", UserCanister("a"), attributes=OLD, cache=CacheHint("5m"))[1] == []


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"prompt_cache_key": "k"}, CacheHint(key="k")),
        ({"prompt_cache_retention": "24h"}, CacheHint("24h")),
        ({"prompt_cache_options": {"ttl": "30m"}}, CacheHint("30m")),
        ({"prompt_cache_options": {"ttl": "30m", "mode": "explicit"}}, None),
        ({"prompt_cache_retention": "in_memory"}, None),
    ],
)
def test_the_fields_of_a_client_are_a_hint_and_come_back(
    name: str, fields: dict[str, Any], hint: CacheHint | None
) -> None:
    dialect, quirks = DIALECTS[name]
    body = {**write(name, UserCanister("a"), model="m")[0], **fields}
    request = dialect.normalize_request(body).value
    assert request.cache == hint
    translation = dialect.nativize_request(request, UNKNOWN, quirks)
    assert translation.value == body
    assert translation.losses == ()


def test_the_fields_of_a_client_reach_another_vendor() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], "prompt_cache_key": "k",
            "prompt_cache_retention": "24h"}  # fmt: skip
    request = chat_completions.normalize_request(body).value
    translation = messages.nativize_request(request, UNKNOWN, messages.Quirks())
    assert translation.value["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert [loss.path for loss in translation.losses] == [
        *("controls.max_tokens", "cache.key", "cache.lifetime")
    ]


def test_openrouter_has_the_marks_of_anthropic() -> None:
    quirks = ChatQuirks(cache_marks="cache_control")
    tool = InvocableDescription(name="f", description="d", schema={"type": "object"})
    request = Request(canisters=TALK[1:], invocables=[tool, CacheHint("1h")], cache=CacheHint())
    translation = chat_completions.nativize_request(request, UNKNOWN, quirks)
    body: Any = translation.value
    assert body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert body["cache_control"] == {"type": "ephemeral"}
    assert translation.losses == ()
    read = chat_completions.normalize_request(body).value
    assert (read.invocables[0].cache, read.cache) == (CacheHint("1h"), CacheHint())


@pytest.mark.parametrize(
    ("dialect", "quirks"),
    [
        (chat_completions, ChatQuirks(cache_marks="")),
        (ollama_chat, ollama_chat.Quirks()),
        (generate_content, generate_content.Quirks()),
    ],
)
def test_elsewhere_hints_are_left_out_and_reported(dialect: Any, quirks: Any) -> None:
    """The body is that of a request without hints."""
    tool = InvocableDescription(name="f", description="d", schema={"type": "object"})
    plain = Request(canisters=(UserCanister(["a", "b"]), UserCanister("c")), invocables=(tool,))
    hinted = Request(
        canisters=(UserCanister(["a", CacheHint(), "b"]), UserCanister("c")),
        invocables=[tool, CacheHint()],
        cache=CacheHint(),
    )
    translation = dialect.nativize_request(hinted, UNKNOWN, quirks)
    expected = dialect.nativize_request(plain, UNKNOWN, quirks)
    assert translation.value == expected.value
    losses = [loss for loss in translation.losses if "cache hint" in loss.reason]
    assert sorted(loss.path for loss in losses) == [
        "cache", "canisters[0].content[1]", "invocables[0].cache",
    ]  # fmt: skip
    assert {loss.grade for loss in losses} == {LossGrade.FORM}


def test_a_result_has_a_breakpoint() -> None:
    """As the only content of a result, it needs parts in place of a text."""
    call = InvocationCanister(invocation_id="c", name="f")
    result = ResultCanister(["r", CacheHint()], invocation_id="c", name="f")
    body, losses = write("responses", UserCanister("a"), call, result)
    (part,) = body["input"][-1]["output"]
    assert part["prompt_cache_breakpoint"] == EXPLICIT
    body, losses = write("chat", UserCanister("a"), call, result)
    (part,) = body["messages"][-1]["content"]
    assert part["prompt_cache_breakpoint"] == EXPLICIT
    assert losses == []
