"""Canisters as messages of Ollama's chat: contents, changes, and losses."""

from __future__ import annotations

import base64
from typing import Any

import attrs
import msgspec
import pytest

from strategies.ollama import PNG, describe_model
from vibe_llms.dialects.ollama_chat import (
    PROTOCOL,
    Quirks,
    nativize_request,
    normalize_messages,
    normalize_request,
)
from vibe_llms.dialects.ollama_chat.calling.controls import nativize_controls
from vibe_llms.dialects.ollama_chat.calling.invocations import nativize_invocables
from vibe_llms.dialects.ollama_chat.calling.messages import nativize_canisters
from vibe_llms.exceptions import CapabilityError, ControlError, RequestError
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    Owner,
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
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request

SOUND = AudioContent(mime_type="audio/wav", data=b"RIFF0000WAVE")


def write(*canisters: AnyCanister, **options: Any) -> tuple[list[Any], list[tuple[str, str]]]:
    """Return the messages, and the kinds and paths of the losses."""
    facts = options.pop("facts", {})
    translation = nativize_canisters(canisters, describe_model(**facts), Quirks(), **options)
    return translation.value["messages"], list_losses(translation.losses)  # type: ignore[return-value]


def list_losses(losses: tuple[Loss, ...]) -> list[tuple[str, str]]:
    return [(str(loss.kind), loss.path) for loss in losses]


def test_a_tool_exchange_has_objects_and_names() -> None:
    """Arguments become an object with their order; a result names its tool and its invocation."""
    call = InvocationCanister(invocation_id="c1", name="add", arguments='{"b": 1.0, "a": [2]}')
    messages, losses = write(
        SupervisorCanister("Be brief."),
        UserCanister("2 + 1?"),
        AssistantCanister((ReasoningContent(text="Hm."), TextualContent("Wait."))),
        call,
        ResultCanister("3", invocation_id="c1"),
    )

    assert losses == []
    assert messages[0] == {"role": "system", "content": "Be brief."}
    assert messages[2]["thinking"] == "Hm."
    assert messages[2]["content"] == "Wait."
    assert msgspec.json.encode(messages[2]["tool_calls"][0]["function"]) == (
        b'{"name":"add","arguments":{"b":1.0,"a":[2]}}'
    )
    assert messages[3] == {
        "role": "tool",
        "content": "3",
        "tool_name": "add",
        "tool_call_id": "c1",
    }


def test_a_generated_id_is_not_sent_to_the_server() -> None:
    """Invocations without ids, and results that answer by order, are sent without ids."""
    native = [
        {"role": "user", "content": "?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"function": {"name": "a", "arguments": {}}},
                {"function": {"name": "b", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "of b", "tool_name": "b"},
        {"role": "tool", "content": "of a"},
    ]
    read = normalize_messages({"messages": native})
    calls = [item for item in read.value if isinstance(item, InvocationCanister)]
    results = [item for item in read.value if isinstance(item, ResultCanister)]

    assert [item.invocation_id for item in results] == [
        calls[1].invocation_id,
        calls[0].invocation_id,
    ]
    assert {loss.kind for loss in read.losses} == {LossKind.SYNTHESIZED}
    assert write(*read.value) == ([*native[:3], {**native[3], "tool_name": "a"}], [])
    fresh = ResultCanister("again", invocation_id=calls[0].invocation_id)
    messages, _ = write(*read.value[:2], fresh, UserCanister("?"))
    assert {"role": "tool", "content": "again", "tool_name": "a"} in messages


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (
            InvocationCanister(invocation_id="c", name="a", arguments='{"half'),
            {"arguments": '{"half'},
        ),
        (InvocationCanister(invocation_id="c", name="a", arguments="[1]"), {"arguments": "[1]"}),
        (
            InvocationCanister(invocation_id="c", name="a", arguments="ls", form="text"),
            {"input": "ls"},
        ),
    ],
)
def test_arguments_that_are_not_an_object_are_put_into_one(
    call: InvocationCanister, arguments: dict[str, str]
) -> None:
    """Invalid and free arguments reach the server unchanged, with a loss."""
    messages, losses = write(call, ResultCanister("x", invocation_id="c"))

    assert messages[0]["tool_calls"][0]["function"]["arguments"] == arguments
    assert losses == [("coerced", "canisters[0].arguments")]


def test_repairs_and_errors_are_each_one_loss() -> None:
    """A generated result contains a note about it; the error mark of another result is lost."""
    call = InvocationCanister(invocation_id="c", name="a")

    messages, losses = write(call, UserCanister("?"))
    assert messages[1]["tool_name"] == "a"
    assert losses == [("synthesized", "canisters[0]")]

    _, losses = write(call, ResultCanister("boom", invocation_id="c", is_error=True))
    assert losses == [("dropped", "canisters[1].is_error")]


def test_texts_are_joined_and_images_are_put_before_them() -> None:
    """A message has one text, so other contents cannot stay between texts."""
    contents = (
        TextualContent("a"),
        ImageContent(mime_type="image/png", data=PNG),
        TextualContent("b"),
    )
    messages, losses = write(UserCanister(contents))

    assert messages[0]["content"] == "a\n\nb"
    assert losses == [("coerced", "canisters[0].content")]


def test_images_are_sent_as_bytes_and_get_their_type_from_them() -> None:
    """They are sent in Base64, and are read with the type of their signature."""
    messages, losses = write(
        UserCanister((ImageContent(mime_type="image/png", data=PNG), TextualContent("this?")))
    )

    assert messages == [
        {"role": "user", "content": "this?", "images": [base64.b64encode(PNG).decode()]}
    ]
    assert losses == []
    back = normalize_messages({"messages": messages}).value[0].content[0]
    assert isinstance(back, ImageContent)
    assert (back.mime_type, back.data) == ("image/png", PNG)


@pytest.mark.parametrize(
    ("contents", "loss_count"),
    [
        ("image text", 0),
        ("image image text", 0),
        ("text image", 1),
        ("image text image", 1),
        ("text image text", 1),
    ],
)
def test_an_image_that_is_moved_is_reported(contents: str, loss_count: list[str]) -> None:
    """The server puts all images before the text."""
    made = {"image": ImageContent(mime_type="image/png", data=PNG), "text": TextualContent("a")}

    _, losses = write(UserCanister(tuple(made[each] for each in contents.split())))

    assert losses == [("coerced", "canisters[0].content")] * loss_count


def test_invalid_images_round_trip() -> None:
    """What is not Base64 is kept as native data."""
    native = {"role": "user", "content": "this?", "images": ["<left out>"]}

    assert write(*normalize_messages({"messages": [native]}).value) == ([native], [])


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        (ImageContent(mime_type="image/png", url="https://example.org/a.png"), ["dropped"]),
        (SOUND, ["dropped"]),
        (VideoContent(mime_type="video/mp4", data=b"film"), ["dropped"]),
        (FileContent(mime_type="application/pdf", data=b"%PDF"), ["dropped"]),
        (FileContent(mime_type="text/plain", data=b"words"), ["coerced"]),
        (ImageContent(mime_type="image/png", data=PNG, detail="high"), ["dropped"]),
        (TextualContent("x", citations=[Citation(title="Book")]), ["withheld"]),
        (ReasoningContent(text="x"), ["dropped"]),
        (RefusalContent("no"), ["coerced"]),
    ],
)
def test_unsupported_contents_are_reported(content: Any, kinds: list[str]) -> None:
    """Each is one loss with its path."""
    _, losses = write(UserCanister((content,)))

    assert [kind for kind, _ in losses] == kinds
    assert all(path.startswith("canisters[0].content[0]") for _, path in losses)


def test_images_for_a_model_without_support_are_an_error() -> None:
    """If the model is known not to support them."""
    with pytest.raises(CapabilityError, match="images"):
        write(
            UserCanister((ImageContent(mime_type="image/png", data=PNG),)),
            facts={"supports_images": "no"},
        )


def test_audio_is_sent_to_models_that_support_it() -> None:
    """In the field for images."""
    messages, losses = write(UserCanister((SOUND,)), facts={"supports_audio": "yes"})

    assert len(messages[0]["images"]) == 1
    assert losses == []
    assert normalize_messages({"messages": messages}).value[0].content == (SOUND,)


def test_missing_bytes_are_rejected() -> None:
    """An image in a store must be loaded before it is sent."""
    with pytest.raises(RequestError, match="not in the request"):
        write(UserCanister((ImageContent(mime_type="image/png", content_id="0" * 64),)))


def test_native_data_of_another_vendor_are_withheld() -> None:
    """Signatures, summaries, native blocks and executed calls, with a loss."""
    origin = Origin(provider="anthropic", model="m", protocol="messages")
    signature = Native(protocol="messages", data="{}")
    owned = {"invocation_id": "s", "owner": Owner.VENDOR, "origin": origin, "turn_id": "t"}
    thought = ReasoningContent(text="Hm.", signature="xyz", native=signature)
    messages, losses = write(
        UserCanister("?"),
        AssistantCanister((thought,), origin=origin, turn_id="t"),
        InvocationCanister(name="web_search", **owned),  # type: ignore[arg-type]
        ResultCanister("hits", **owned),  # type: ignore[arg-type]
        AssistantCanister("So.", origin=origin, turn_id="t"),
        UserCanister("and?"),
        provider="ollama",
    )

    assert messages[1] == {"role": "assistant", "thinking": "Hm.", "content": "So."}
    assert losses == [
        ("withheld", "canisters[1].content[0].signature"),
        ("withheld", "canisters[2]"),
        ("withheld", "canisters[3]"),
    ]


def test_native_data_of_another_server_are_withheld() -> None:
    """Fields of one server are not sent to another."""
    native = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"x_trace": 1, "function": {"name": "a", "arguments": {}}}],
    }
    read = normalize_messages({"messages": [native]}).value
    origin = Origin(provider="other", model="m", protocol=PROTOCOL)
    assert isinstance(read[0], InvocationCanister)
    call = attrs.evolve(read[0], origin=origin)
    messages, losses = write(call, provider="ollama")

    (written,) = messages[0]["tool_calls"]
    assert written["function"] == {"name": "a", "arguments": {}}
    assert "x_trace" not in written
    assert ("withheld", "canisters[0].native") in losses


def test_a_document_is_framed_by_marks() -> None:
    """It keeps its title, and is distinct from the user's own text."""
    messages, losses = write(DocumentCanister("Text.", title="A"), UserCanister("?"))

    assert messages[0]["content"] == '<document title="A">\nText.\n</document>'
    assert losses == [("coerced", "canisters[0]")]


def test_a_changed_text_is_kept() -> None:
    """Extras do not restore the earlier one."""
    read = normalize_messages({"messages": [{"role": "assistant", "x": 1}]}).value[0]
    edited = attrs.evolve(read, content="New.")

    assert write(UserCanister("?"), edited)[0][1] == {
        "role": "assistant",
        "content": "New.",
        "x": 1,
    }


def test_roles_of_a_template_round_trip() -> None:
    """A role of one model's template is a supervisor's here."""
    native = {"role": "control", "content": "thinking"}
    read = normalize_messages({"messages": [native]}).value

    assert isinstance(read[0], SupervisorCanister)
    assert write(*read)[0] == [native]


@pytest.mark.parametrize("message", [{}, {"role": 1}, {"role": "user", "content": ["a"]}, 7])
def test_invalid_messages_are_rejected_with_their_path(message: Any) -> None:
    """So that a client can correct them."""
    with pytest.raises(RequestError) as caught:
        normalize_messages({"messages": [{"role": "user", "content": "hi"}, message]})
    assert caught.value.path.startswith("messages[1]")


def test_controls_become_options_and_think() -> None:
    """With the server's names, and its form of the effort."""
    controls: dict[str, JsonValue] = {
        "max_tokens": 9,
        "stop": ["a"],
        "temperature": 0.5,
        "reasoning_effort": "none",
    }
    native = nativize_controls(controls, describe_model(), Quirks()).value

    assert native == {
        "options": {"num_predict": 9, "stop": ["a"], "temperature": 0.5},
        "think": False,
    }
    near = nativize_controls({"reasoning_effort": "xhigh"}, describe_model(), Quirks())
    assert near.value == {"think": "max"}
    assert list_losses(near.losses) == [("coerced", "controls.reasoning_effort")]
    with pytest.raises(ControlError):
        nativize_controls({"temperature": -1}, describe_model(), Quirks())


def test_the_tool_choice_is_reported_as_lost() -> None:
    """This protocol cannot require a tool."""
    tools = [
        InvocableDescription(name=name, description="d", schema={"type": "object"})
        for name in ("a", "b")
    ]

    def offer(choice: str) -> tuple[list[str], list[tuple[str, str]]]:
        translation = nativize_invocables(tools, choice)
        offered: Any = translation.value.get("tools", [])
        return [tool["function"]["name"] for tool in offered], list_losses(translation.losses)

    assert offer("auto") == (["a", "b"], [])
    assert offer("none") == ([], [("coerced", "invocation_choice")])
    assert offer("required") == (["a", "b"], [("dropped", "invocation_choice")])
    assert offer("b") == (["b"], [("coerced", "invocation_choice")])


def test_changed_controls_and_schemas_replace_native_data() -> None:
    """``think: true`` and ``format: json`` are sent only if the common fields did not change."""
    native = {
        "model": "llama3",
        "messages": [{"role": "user", "content": "?"}],
        "think": True,
        "format": "json",
        "options": {"num_ctx": 4096, "seed": 1},
    }
    request = normalize_request(native).value
    schema: dict[str, JsonValue] = {"type": "object", "properties": {}}
    edited = attrs.evolve(request, controls={"reasoning_effort": "high"}, schema=schema)

    body = nativize_request(edited, describe_model(), Quirks()).value

    assert body["think"] == "high"
    assert body["format"] == schema
    assert body["options"] == {"num_ctx": 4096}


def test_a_request_that_only_loads_a_model_is_rejected() -> None:
    """Without messages there is nothing to answer."""
    with pytest.raises(RequestError, match="no message"):
        normalize_request({"model": "llama3", "messages": []})


def test_native_data_of_other_protocols_are_withheld() -> None:
    """A request of another protocol has its own parameters."""
    native = Native(protocol="messages", data='{"betas":["x"]}')
    request = Request(canisters=(UserCanister("?"),), native=native)

    translation = nativize_request(request, describe_model(), Quirks())

    assert "betas" not in translation.value
    assert list_losses(translation.losses) == [("withheld", "request.native")]
