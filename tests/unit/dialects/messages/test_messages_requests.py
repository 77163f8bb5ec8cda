"""Conversations become requests of Messages, and requests become conversations."""

from __future__ import annotations

import functools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fidelity.meanings import distil
from support.vendors.messages_exchanges import KNOWN
from vibe_llms.dialects.history import NO_RESULT
from vibe_llms.dialects.messages import (
    Quirks,
    nativize_request,
    nativize_response,
    normalize_messages,
    normalize_request,
)
from vibe_llms.dialects.messages.calling.caching import MAX_MARKS
from vibe_llms.dialects.messages.calling.messages import nativize_canisters
from vibe_llms.dialects.signatures import is_wrapped
from vibe_llms.exceptions import CapabilityError, RequestError
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
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AudioContent,
    CacheHint,
    Citation,
    FileContent,
    ImageContent,
    Native,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.models.integrators import ModelsIntegrator

mean = functools.partial(distil, "messages")

OURS = Origin(provider="ours", model="claude", protocol="messages")
OTHER_ORIGIN = Origin(provider="theirs", model="claude", protocol="messages")
PIXEL = ImageContent(mime_type="image/png", data=b"pixel")
SIGNED_REASONING = ReasoningContent(
    text="hm", signature="S", native=Native(protocol="messages", data="{}")
)


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def call(identity: str = "a", **fields: Any) -> InvocationCanister:
    return InvocationCanister(invocation_id=identity, name="f", **fields)


def write(
    *canisters: AnyCanister, continuation: bool = False
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the messages, and the losses as kinds and paths."""
    translation = nativize_canisters(
        canisters, KNOWN, Quirks(), provider="ours", continuation=continuation
    )
    messages: Any = translation.value["messages"]
    return messages, [f"{loss.kind} {loss.path}" for loss in translation.losses]


def test_a_turn_is_one_message_and_its_results_begin_the_next() -> None:
    """The user's text follows in the same message."""
    messages, losses = write(
        UserCanister("?"),
        AssistantCanister("I look.", turn_id="t"),
        call("a", turn_id="t"),
        call("b", turn_id="t", arguments='{"x": 1}'),
        ResultCanister("A", invocation_id="a"),
        ResultCanister((), invocation_id="b", is_error=True),
        UserCanister("And?"),
    )
    assert losses == []
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == [
        text("I look."),
        {"type": "tool_use", "id": "a", "name": "f", "input": {}},
        {"type": "tool_use", "id": "b", "name": "f", "input": {"x": 1}},
    ]
    assert messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": [text("A")]},
        {"type": "tool_result", "tool_use_id": "b", "is_error": True},
        text("And?"),
    ]


def test_the_boundaries_between_messages_round_trip() -> None:
    """Separate messages stay separate, and joined ones joined."""
    use = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    other = {**use, "id": "b"}
    result = {"type": "tool_result", "tool_use_id": "a"}
    messages = [
        {"role": "system", "content": [text("first")]},
        {"role": "user", "content": [text("1")]},
        {"role": "user", "content": [text("2")]},
        {"role": "assistant", "content": [use, other]},
        {"role": "user", "content": [result]},
        {"role": "user", "content": [{**result, "tool_use_id": "b"}]},
        {"role": "user", "content": [text("3")]},
        {"role": "assistant", "content": [text("4")]},
        {"role": "assistant", "content": [text("5")]},
        {"role": "system", "content": [text("6")], "clear_at": "next_user_message"},
    ]
    canisters = normalize_messages({"messages": messages}).value
    translation = nativize_canisters(canisters, KNOWN, Quirks())
    assert translation.losses == ()
    assert translation.value == {"messages": messages}


def test_instructions_are_before_the_messages_or_between_them() -> None:
    """Those at the beginning become the request's own field."""
    canisters = [SupervisorCanister("a"), SupervisorCanister("b"), UserCanister("c")]
    translation = nativize_canisters([*canisters, SupervisorCanister("d")], KNOWN, Quirks())
    assert translation.value["system"] == [text("a"), text("b")]
    assert translation.value["messages"] == [
        {"role": "user", "content": [text("c")]},
        {"role": "system", "content": [text("d")]},
    ]


def test_history_is_repaired_before_it_is_sent() -> None:
    """No invocation without a result, no id that the vendor rejects."""
    messages, losses = write(UserCanister("?"), call("ä:1"), UserCanister("!"))
    use, (result, message) = messages[1]["content"][0], messages[2]["content"]
    assert use["id"] == result["tool_use_id"]
    assert use["id"].isascii()
    assert result["content"] == [text(NO_RESULT)]
    assert message == text("!")
    assert losses == ["coerced canisters[1].invocation_id", "synthesized canisters[1]"]


def test_arguments_become_an_object_whatever_they_are() -> None:
    """Invalid JSON and free text are put into a field, with a loss."""
    for form, arguments, value, kind in (
        ("json", '{"a": 1}', {"a": 1}, []),
        ("json", "[1]", {"INVALID_JSON": "[1]"}, ["coerced canisters[0].arguments"]),
        ("json", '{"a"', {"INVALID_JSON": '{"a"'}, ["coerced canisters[0].arguments"]),
        ("json", "", {}, []),
        ("text", "ls -l", {"input": "ls -l"}, ["coerced canisters[0].arguments"]),
    ):
        made: Any = call(arguments=arguments, form=form)
        messages, losses = write(made, ResultCanister("r", invocation_id="a"))
        assert messages[0]["content"][0]["input"] == value
        assert losses == kind


def test_reasoning_is_sent_only_to_its_own_provider() -> None:
    """Not to another provider of the same protocol, and not without its signature."""
    messages, losses = write(AssistantCanister((SIGNED_REASONING,), origin=OURS), UserCanister("?"))
    block = {"type": "thinking", "thinking": "hm", "signature": "S"}
    assert (messages[0]["content"], losses) == ([block], [])
    dark = ReasoningContent(
        signature="D", native=Native(protocol="messages", data='{"type":"redacted_thinking"}')
    )
    messages, losses = write(AssistantCanister((dark,)), UserCanister("?"))
    assert messages[0]["content"] == [{"type": "redacted_thinking", "data": "D"}]
    unsigned = ReasoningContent(text="hm", native=Native(protocol="messages", data="{}"))
    foreign = ReasoningContent(text="hm", signature="S", native=Native(protocol="other", data="{}"))
    for content, origin in (
        (SIGNED_REASONING, OTHER_ORIGIN),
        (unsigned, OURS),
        (foreign, None),
        (ReasoningContent(text="hm"), None),
    ):
        message = (content, TextualContent("so"))
        messages, losses = write(AssistantCanister(message, origin=origin), UserCanister("?"))
        assert messages[0]["content"] == [text("so")]
        assert losses == ["withheld canisters[0].content[0]"]


def test_calls_of_another_vendor_are_withheld() -> None:
    """With their results; nothing is generated for them."""
    native = Native(protocol="responses", data='{"type":"web_search_call"}')
    messages, losses = write(
        UserCanister("?"),
        call("w", owner=Owner.VENDOR, native=native),
        ResultCanister("r", invocation_id="w", owner=Owner.VENDOR, native=native),
        AssistantCanister("so"),
        UserCanister("!"),
    )
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert losses[:2] == ["withheld canisters[1]", "withheld canisters[2]"]


def test_a_paused_turn_is_sent_unchanged_and_an_interrupted_one_without_open_calls() -> None:
    """The vendor continues its own calls of a paused turn; those of an interrupted turn never get
    results.
    """
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    native = Native(protocol="messages", data=msgspec.json.encode(block).decode())
    for reason, blocks, kinds in (
        (StopReason.PAUSED, [text("I look. "), block], []),
        (StopReason.INTERRUPTED, [text("I look.")], ["dropped canisters[2]"]),
    ):
        origin = Origin(provider="ours", model="m", protocol="messages", stop_reason=reason)
        message = AssistantCanister("I look. ", origin=origin, turn_id="t")
        began = call("s", owner=Owner.VENDOR, native=native, origin=origin, turn_id="t")
        messages, losses = write(UserCanister("?"), message, began, continuation=True)
        assert messages[1]["content"] == blocks
        assert losses[: len(kinds)] == kinds


def test_a_continued_answer_ends_without_whitespace() -> None:
    """The vendor rejects it."""
    messages, losses = write(UserCanister("?"), AssistantCanister("One \n"), continuation=True)
    assert messages[1]["content"] == [text("One")]
    assert losses == ["coerced canisters[1]"]


def test_contents_that_the_vendor_rejects_are_dropped_with_a_loss() -> None:
    """Empty texts, and messages that become empty."""
    messages, losses = write(
        UserCanister(("", "a")),
        AssistantCanister(("", " ")),
        UserCanister("b"),
        AssistantCanister((PIXEL,)),
        UserCanister(""),
    )
    assert messages == [
        {"role": "user", "content": [text("a")]},
        {"role": "assistant", "content": [text(" ")]},
        {"role": "user", "content": [text("b")]},
    ]
    assert losses == [
        "dropped canisters[0].content[0]",
        "dropped canisters[1].content[0]",
        "withheld canisters[3].content[0]",
        "dropped canisters[4].content[0]",
        "dropped canisters[3]",
        "dropped canisters[4]",
    ]


def test_every_unsupported_field_is_reported() -> None:
    """Each by its own path."""
    native = Native(protocol="other", data='{"x": 1}')
    contents = (
        TextualContent("a", mime_type="text/html", citations=(Citation(title="t"),), native=native),
        ImageContent(mime_type="image/png", data=b"p", detail="low", name="n", native=native),
        FileContent(mime_type="application/pdf", data=b"p", name="n", title="t"),
        FileContent(mime_type="text/csv", data=b"1,2", name="n"),
        AudioContent(mime_type="audio/wav", data=b"w", transcript="words"),
        AudioContent(mime_type="audio/wav", data=b"w"),
        VideoContent(mime_type="video/mp4", url="u"),
        RefusalContent("no"),
        ReasoningContent(text="hm"),
        NativeContent(kind="k", native=native),
    )
    _, losses = write(UserCanister(contents, native=native))
    assert losses == [
        "withheld canisters[0].native",
        "dropped canisters[0].content[0].mime_type",
        "withheld canisters[0].content[0].citations[0]",
        "withheld canisters[0].content[0].native",
        "dropped canisters[0].content[1].detail",
        "dropped canisters[0].content[1].name",
        "withheld canisters[0].content[1].native",
        "dropped canisters[0].content[2].name",
        "coerced canisters[0].content[3].name",
        "coerced canisters[0].content[3].mime_type",
        "coerced canisters[0].content[4]",
        "dropped canisters[0].content[5]",
        "dropped canisters[0].content[6]",
        "coerced canisters[0].content[7]",
        "dropped canisters[0].content[8]",
        "withheld canisters[0].content[9]",
    ]


def test_documents_of_every_source_round_trip() -> None:
    """Data, text, parts, a URL and a file; with their title and context."""
    words = {"type": "text", "text": "one"}
    for source in (
        {"type": "base64", "media_type": "application/pdf", "data": "UERG"},
        {"type": "text", "media_type": "text/plain", "data": "words"},
        {"type": "content", "content": "words"},
        {"type": "content", "content": [words, {**words, "text": "two\n\nthree"}]},
        {"type": "url", "url": "https://example.org/a.pdf"},
        {"type": "file", "file_id": "file_1"},
    ):
        block = {
            "type": "document",
            "source": source,
            "title": "T",
            "context": "C",
            "citations": {"enabled": True},
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
        }
        messages = [{"role": "user", "content": [block]}]
        (canister,) = normalize_messages({"messages": messages}).value
        content, hint = canister.content
        assert isinstance(content, FileContent)
        assert hint == CacheHint("1h")
        assert (content.title, content.context) == ("T", "C")
        assert write(canister) == (messages, [])


def test_a_changed_text_of_a_document_is_kept() -> None:
    """Native data do not restore the earlier one."""
    source = {"type": "content", "content": [text("one"), text("two")]}
    messages = [{"role": "user", "content": [{"type": "document", "source": source}]}]
    (canister,) = normalize_messages({"messages": messages}).value
    native = canister.content[0].native
    edited = FileContent(mime_type="text/plain", data=b"other", native=native)
    (message,), losses = write(UserCanister((edited,)))
    assert message["content"][0]["source"] == {"type": "content", "content": [text("other")]}
    assert losses == []


def test_a_document_canister_is_a_document() -> None:
    """With its title and its images."""
    (first, second, third), losses = write(
        DocumentCanister(("a", "b"), title="T"),
        DocumentCanister(("a", PIXEL), title=""),
        DocumentCanister((FileContent(mime_type="application/pdf", data=b"p"),), title="T"),
    )
    source = {"type": "content", "content": [text("a"), text("b")]}
    assert first["content"] == [{"type": "document", "source": source, "title": "T"}]
    assert [part["type"] for part in second["content"][0]["source"]["content"]] == ["text", "image"]
    assert "title" not in second["content"][0]
    assert third["content"][0]["title"] == "T"
    assert losses == []


def test_a_medium_without_its_bytes_is_rejected() -> None:
    """They are in the store; and images are rejected for a model without support."""
    missing = ImageContent(mime_type="image/png", content_id="0" * 64)
    with pytest.raises(RequestError, match="content store"):
        write(UserCanister((missing,)))
    blind = ModelsIntegrator(provider="p").integrate("m", facts={"supports_images": False})
    with pytest.raises(CapabilityError, match="images"):
        nativize_canisters([UserCanister((PIXEL,))], blind, Quirks())


def test_invalid_base64_is_passed_through() -> None:
    """The vendor reports the error."""
    source = {"type": "base64", "media_type": "image/png", "data": "<placeholder>"}
    messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    (canister,) = normalize_messages({"messages": messages}).value
    assert isinstance(canister.content[0], NativeContent)
    assert write(canister) == (messages, [])


@pytest.mark.parametrize(
    "message",
    [
        {"role": "martian", "content": "?"},
        {"content": "?"},
        {"role": "user", "content": [{"type": "tool_result"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
        {"role": "user", "content": ["?"]},
        "?",
    ],
)
def test_an_invalid_message_is_located(message: Any) -> None:
    """By its path in the request."""
    with pytest.raises(RequestError) as caught:
        normalize_messages({"messages": [{"role": "user", "content": "?"}, message]})
    assert caught.value.path == "messages[1]"


def test_an_answer_of_another_vendor_is_written_for_a_client() -> None:
    """Its reasoning is shown, its signature is wrapped; its stop reason is translated."""
    origin = Origin(
        provider="other",
        model="gpt",
        protocol="responses",
        response_id="resp_1",
        stop_reason=StopReason.LIMIT,
        native_stop_reason="max_output_tokens",
        usage=Usage(input_tokens=1, cache_write_long_tokens=2, reasoning_tokens=3, native="{}"),
    )
    thought = ReasoningContent(
        summary=("a", "b"), signature="S", native=Native(protocol="responses", data="{}")
    )
    message = AssistantCanister((thought, TextualContent("c"), RefusalContent("d")), origin=origin)
    made = call("x", origin=origin)
    response = Response(
        request=Request(canisters=[UserCanister("?")]),
        canisters=[message, made],
        metadata=ResponseMetadata(origin=origin),
    )
    translation = nativize_response(response)
    body: Any = translation.value
    seal = body["content"][0]["signature"]
    assert is_wrapped(seal)
    assert body["content"] == [
        {"type": "thinking", "thinking": "a\n\nb", "signature": seal},
        text("c"),
        text("d"),
        {"type": "tool_use", "id": "x", "name": "f", "input": {}},
    ]
    assert (body["stop_reason"], body["id"], body["model"]) == ("max_tokens", "resp_1", "gpt")
    assert body["usage"]["cache_creation_input_tokens"] == 2
    assert body["usage"]["output_tokens_details"] == {"thinking_tokens": 3}
    assert [f"{loss.kind} {loss.path}" for loss in translation.losses] == [
        "coerced canisters[0].content[0].summary",
        "coerced canisters[0].content[2]",
    ]


WORDS = st.text(min_size=1, max_size=6).filter(lambda words: bool(words.strip()))
USER_TEXTS = st.fixed_dictionaries(
    {"type": st.just("text"), "text": WORDS},
    optional={"cache_control": st.just({"type": "ephemeral"})},
)
USER_MEDIA = st.sampled_from(
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "document", "source": {"type": "url", "url": "u"}, "title": "T"},
        {"type": "search_result", "source": "s", "title": "t", "content": [text("c")]},
        {"type": "container_upload", "file_id": "f"},
    ]
)
MODEL_TEXTS = st.one_of(
    USER_TEXTS,
    st.sampled_from(
        [
            {"type": "thinking", "thinking": "hm", "signature": "S"},
            {"type": "redacted_thinking", "data": "D"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            {"type": "compaction", "content": None},
        ]
    ),
)
EXCHANGE = st.tuples(
    st.lists(st.one_of(USER_TEXTS, USER_MEDIA), min_size=1, max_size=3),
    st.lists(MODEL_TEXTS, min_size=1, max_size=3),
    st.integers(0, 2),
    st.lists(USER_TEXTS, max_size=1),
)


@given(st.lists(EXCHANGE, min_size=1, max_size=3))
def test_any_request_round_trips(exchanges: list[Any]) -> None:
    """With any contents, in any order."""
    messages: list[dict[str, Any]] = []
    for number, (message, texts, calls, added) in enumerate(exchanges):
        names = [f"{number}-{index}" for index in range(calls)]
        uses = [{"type": "tool_use", "id": n, "name": "f", "input": {"n": n}} for n in names]
        results = [{"type": "tool_result", "tool_use_id": n, "content": [text(n)]} for n in names]
        messages += [
            {"role": "user", "content": message},
            {"role": "assistant", "content": [*texts, *uses]},
        ]
        if results:
            messages.append({"role": "user", "content": [*results, *added]})
    messages.append({"role": "user", "content": [text("?")]})
    request = {"model": "model", "max_tokens": 9, "messages": messages}
    assume(json.dumps(messages).count("cache_control") <= MAX_MARKS)
    translation = nativize_request(normalize_request(request).value, KNOWN, Quirks())
    assert translation.losses == ()
    assert mean(translation.value) == mean(request)
