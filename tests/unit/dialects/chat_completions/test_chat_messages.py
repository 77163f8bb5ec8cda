"""Canisters become messages of Chat Completions, and messages become canisters."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from strategies.messages import canisters as any_canisters
from vibe_llms.dialects.chat_completions import Quirks, normalize_invocables, normalize_messages
from vibe_llms.dialects.chat_completions.calling.invocations import (
    nativize_invocables,
    nativize_schema,
)
from vibe_llms.dialects.chat_completions.calling.messages import nativize_canisters
from vibe_llms.dialects.chat_completions.serving.invocations import normalize_schema
from vibe_llms.dialects.history import NO_RESULT
from vibe_llms.exceptions import CapabilityError, ConverseError, RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AudioContent,
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
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss
from vibe_llms.models.integrators import ModelsIntegrator

mean = functools.partial(distil, "chat_completions")

UNKNOWN = ModelsIntegrator(provider="vendor").integrate("model")
BLIND = ModelsIntegrator(provider="vendor").integrate("model", facts={"supports_images": False})
PIXEL = ImageContent(mime_type="image/png", data=b"pixel")


def nativize(
    *canisters: AnyCanister, quirks: Quirks | None = None
) -> tuple[list[dict[str, Any]], tuple[Loss, ...]]:
    """Return the messages and the losses."""
    translation = nativize_canisters(canisters, UNKNOWN, quirks or Quirks())
    return list(translation.value["messages"]), translation.losses  # type: ignore[arg-type]


def call(identity: str = "x", **fields: Any) -> InvocationCanister:
    """Make an invocation."""
    return InvocationCanister(invocation_id=identity, name="f", **fields)


def result(text: str = "done", identity: str = "x") -> ResultCanister:
    """Make a result."""
    return ResultCanister(text, invocation_id=identity)


def survey_kinds(losses: Sequence[Loss]) -> list[str]:
    """Return the kinds of losses, in order."""
    return [str(loss.kind) for loss in losses]


def test_a_plain_conversation_has_plain_messages() -> None:
    """One text is a text, not a list; an invocation belongs to the turn before it."""
    messages, losses = nativize(
        SupervisorCanister("Be brief."),
        UserCanister("Hi."),
        AssistantCanister("Wait.", turn_id="t"),
        call(turn_id="t", arguments='{"a": 1}'),
        result(),
        AssistantCanister("There."),
    )

    function = {"name": "f", "arguments": '{"a": 1}'}
    assert messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
        {
            "role": "assistant",
            "content": "Wait.",
            "tool_calls": [{"id": "x", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "x", "content": "done"},
        {"role": "assistant", "content": "There."},
    ]
    assert losses == ()


def test_a_document_is_framed_without_instructions() -> None:
    """Only its title and its boundaries are added."""
    messages, losses = nativize(DocumentCanister("All about ants.", title="Ants"))

    text = '<document title="Ants">\nAll about ants.\n</document>'
    assert messages == [{"role": "user", "content": text}]
    assert [(str(loss.kind), loss.path) for loss in losses] == [("coerced", "canisters[0]")]


def test_media_become_parts() -> None:
    """Images become URLs or data URLs, audio and files Base64."""
    data = base64.b64encode(b"pixel").decode()
    messages, losses = nativize(
        UserCanister(
            (
                TextualContent("See:"),
                PIXEL,
                ImageContent(mime_type="image/*", url="https://example.org/a.png", detail="low"),
                AudioContent(mime_type="audio/mpeg", data=b"pixel"),
                FileContent(mime_type="application/pdf", data=b"pixel", name="a.pdf"),
            )
        )
    )

    assert messages[0]["content"] == [
        {"type": "text", "text": "See:"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {
            "type": "image_url",
            "image_url": {"url": "https://example.org/a.png", "detail": "low"},
        },
        {"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}},
        {
            "type": "file",
            "file": {"file_data": f"data:application/pdf;base64,{data}", "filename": "a.pdf"},
        },
    ]
    assert losses == ()


def test_a_model_known_not_to_support_images_gets_none() -> None:
    """An unknown capability is no reason to reject an image."""
    with pytest.raises(CapabilityError, match="images"):
        nativize_canisters([UserCanister((PIXEL,))], BLIND, Quirks())


def test_an_image_without_its_bytes_is_rejected() -> None:
    """A stored image must be loaded before it is sent."""
    with pytest.raises(RequestError, match="content store"):
        nativize(UserCanister((ImageContent(mime_type="image/png", content_id="0" * 64),)))


def test_an_invocation_without_a_result_gets_a_note() -> None:
    """The protocol requires a result of each invocation; the note is reported."""
    messages, losses = nativize(call(), UserCanister("Never mind."))

    assert messages[1] == {"role": "tool", "tool_call_id": "x", "content": NO_RESULT}
    assert survey_kinds(losses) == ["synthesized"]


def test_a_call_with_free_text_is_a_custom_tool_call() -> None:
    """If the vendor has no custom tools, the change to JSON is reported."""
    turn = (call(form="text", arguments="SELECT 1"), result())
    messages, losses = nativize(*turn)
    plain, coerced = nativize(*turn, quirks=Quirks(takes_custom=False))

    custom = {"name": "f", "input": "SELECT 1"}
    assert messages[0]["tool_calls"] == [{"id": "x", "type": "custom", "custom": custom}]
    assert losses == ()
    assert plain[0]["tool_calls"][0]["function"]["arguments"] == '{"input":"SELECT 1"}'
    assert survey_kinds(coerced) == ["coerced"]
    assert coerced[0].path == "canisters[0]"


def test_a_vendors_own_tool_is_reported_as_changed_or_withheld() -> None:
    """With a schema it is sent as a function, without one it is not sent."""
    native = Native(protocol="responses", data='{"type": "web_search"}')
    described = {"name": "search", "description": "Searches.", "native": native}
    ours = InvocableDescription(schema={"type": "object"}, **described)  # type: ignore[arg-type]
    theirs = InvocableDescription(schema=None, **described)  # type: ignore[arg-type]

    assert survey_kinds(nativize_invocables([ours], "auto").losses) == ["coerced"]
    assert survey_kinds(nativize_invocables([theirs], "auto").losses) == ["withheld"]


def test_a_result_without_an_invocation_becomes_a_user_message() -> None:
    """Nothing is dropped, and the change is reported."""
    messages, losses = nativize(UserCanister("Hi."), result("orphan"))

    assert messages[1]["role"] == "user"
    assert messages[1]["content"].endswith(":\norphan")
    assert survey_kinds(losses) == ["coerced"]


def test_a_late_result_moves_to_its_invocation() -> None:
    """Repeated ids are paired with the results that follow them."""
    messages, losses = nativize(
        call(), UserCanister("Well?"), result("first"), call(), result("second")
    )

    assert [message["role"] for message in messages] == [
        "assistant",
        "tool",
        "user",
        "assistant",
        "tool",
    ]
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["first", "second"]
    assert [loss.path for loss in losses] == ["canisters[3].invocation_id", "canisters[2]"]


def test_an_image_in_a_result_follows_the_results() -> None:
    """Results have only text; images come after all results of the turn."""
    shown = ResultCanister((TextualContent("Look."), PIXEL), invocation_id="x")
    messages, losses = nativize(call(), call("y"), shown, result("two", "y"))

    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user"]
    assert messages[1]["content"] == "Look."
    assert survey_kinds(losses) == ["coerced"]


def test_unsupported_contents_are_reported() -> None:
    """Reasoning, citations, foreign blocks and videos are each a loss."""
    foreign = NativeContent(kind="k", native=Native(protocol="messages", data="{}"))
    cited = TextualContent("So.", citations=[Citation(url="https://example.org")])
    _, losses = nativize(
        UserCanister((VideoContent(mime_type="video/mp4", data=b"v"), foreign)),
        AssistantCanister((ReasoningContent(text="Hm."), cited, foreign)),
    )

    assert survey_kinds(losses) == ["dropped", "withheld", "withheld", "withheld", "withheld"]


def test_quirks_determine_the_differences_between_vendors() -> None:
    """Roles, fields and forms are data."""
    quirks = Quirks(
        supervisor_roles=["developer"],
        reasoning_field="reasoning",
        takes_parts=False,
        takes_refusals=False,
    )
    messages, losses = nativize(
        SupervisorCanister("Be brief."),
        UserCanister((TextualContent("a"), TextualContent("b"))),
        AssistantCanister((ReasoningContent(text="Hm."), RefusalContent("No."))),
        quirks=quirks,
    )

    assert messages == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "a\n\nb"},
        {"role": "assistant", "content": "No.", "reasoning": "Hm."},
    ]
    assert survey_kinds(losses) == ["coerced", "coerced"]


@pytest.mark.parametrize(
    ("written", "sent", "kinds"),
    [
        ('{"a": 1 }', '{"a": 1 }', []),
        ("{ }", "{ }", []),
        ("", "{}", []),
        (" ", "{}", []),
        ("null", "{}", []),
        ('{"a": ', {"INVALID_JSON": '{"a": '}, ["coerced"]),
        ("[1]", {"INVALID_JSON": "[1]"}, ["coerced"]),
        ('"Köln"', {"INVALID_JSON": '"Köln"'}, ["coerced"]),
        ('{"a": 1} and more', {"INVALID_JSON": '{"a": 1} and more'}, ["coerced"]),
    ],
)
def test_arguments_are_an_object_for_servers_that_parse_them(
    written: str, sent: object, kinds: list[str]
) -> None:
    """Otherwise one invalid call would make the server reject the whole conversation."""
    canisters = (UserCanister("?"), call(arguments=written), result())

    def read(quirks: Quirks) -> tuple[str, list[str]]:
        messages, losses = nativize(*canisters, quirks=quirks)
        return messages[1]["tool_calls"][0]["function"]["arguments"], survey_kinds(losses)

    arguments, losses = read(Quirks(takes_broken=False))
    assert (arguments if isinstance(sent, str) else json.loads(arguments)) == sent
    assert losses == kinds
    assert read(Quirks()) == (written, [])  # OpenAI takes what its models wrote


@pytest.mark.slow
@given(st.lists(any_canisters, max_size=6))
def test_every_conversation_is_written_or_rejected(canisters: list[AnyCanister]) -> None:
    """Each invocation is answered at once, and the written messages round-trip."""
    try:
        messages = nativize(*canisters, quirks=Quirks(reasoning_field="reasoning_content"))[0]
    except ConverseError:
        return

    for index, message in enumerate(messages):
        calls = [one["id"] for one in message.get("tool_calls", ())]
        following = messages[index + 1 : index + 1 + len(calls)]
        assert [other.get("tool_call_id") for other in following] == calls


words = st.text(min_size=1, max_size=6)


@given(
    st.lists(
        st.one_of(
            words.map(lambda text: {"role": "system", "content": text}),
            words.map(lambda text: {"role": "user", "content": text}),
            st.lists(words, min_size=2, max_size=3).map(
                lambda texts: {
                    "role": "user",
                    "content": [{"type": "text", "text": text} for text in texts],
                }
            ),
            words.map(lambda text: {"role": "assistant", "content": text}),
            st.binary(max_size=5).map(
                lambda data: {
                    "role": "user",
                    "content": [
                        {
                            "type": "image_url",
                            "image_url": {
                                "url": f"data:image/png;base64,{base64.b64encode(data).decode()}"
                            },
                        }
                    ],
                }
            ),
        ),
        max_size=6,
    )
)
def test_a_clients_messages_round_trip(messages: list[dict[str, Any]]) -> None:
    """Read as canisters they are written as the same messages, without a loss."""
    read = normalize_messages({"messages": messages})

    written, losses = nativize(*read.value)

    assert mean(written) == mean(messages)
    assert read.losses == losses == ()


def test_a_turn_with_invocations_round_trips() -> None:
    """Arguments keep their text, and results their positions."""
    function = {"name": "f", "arguments": '{ "a" :1}'}
    messages = [
        {"role": "user", "content": "Hi."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "x", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "x", "content": "done"},
    ]

    read = normalize_messages({"messages": messages})

    assert mean(nativize(*read.value)[0]) == mean(messages)


@pytest.mark.parametrize(
    "message",
    [
        {"role": 5},
        {"role": ["user"]},
        {"content": "x"},
        "text",
        {"role": "tool"},
        {"role": "user", "content": [{"role": "user", "content": "x"}]},
    ],
)
def test_an_invalid_message_is_located(message: Any) -> None:
    """The error has its path."""
    with pytest.raises(RequestError) as caught:
        normalize_messages({"messages": [{"role": "user", "content": "x"}, message]})

    assert caught.value.path == "messages[1]"


@pytest.mark.parametrize("choice", ["auto", "none", "required", "f"])
def test_invocables_and_the_choice_round_trip(choice: str) -> None:
    """The description, its schema and the choice."""
    closed: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    described = InvocableDescription(name="f", description="Does it.", schema=closed, enforced=True)

    native = nativize_invocables([described], choice)
    back = normalize_invocables(native.value)

    assert back.value == ((described,), choice)
    assert back.losses == ()


def test_a_schema_round_trips() -> None:
    """Also no schema."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}

    assert normalize_schema(nativize_schema(schema).value).value == schema
    assert normalize_schema(nativize_schema(None).value).value is None
