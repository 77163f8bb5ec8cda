"""Empty fields do not hide a filled field beside them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from vibe_llms.dialects import chat_completions, generate_content, messages, ollama_chat, responses
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister
from vibe_llms.messages.views import text_of
from vibe_llms.providers.assembly import Assembler

Body = dict[str, Any]
FUNCTION = {"name": "look", "arguments": '{"a":1}'}
NO_FUNCTION = {"name": "", "arguments": ""}
NO_CUSTOM = {"name": "", "input": ""}
NO_SOUND = {"id": "", "data": "", "transcript": "", "expires_at": 0}


def read(dialect: ModuleType, feed: Callable[[Any], list[Any]], decoder: Any) -> list[Any]:
    """Return the contents of the canisters of an answer."""
    assembler = Assembler(provider="vendor", model="model", protocol=dialect.PROTOCOL)
    for event in feed(decoder):
        assembler.feed(event)
    return outline(assembler.produce_canisters())


def outline(canisters: tuple[AnyCanister, ...]) -> list[Any]:
    """Return the contents of canisters."""
    return [
        (each.name, each.arguments, each.form)
        if isinstance(each, InvocationCanister)
        else (text_of(each), *(content.type for content in each.content))
        for each in canisters
    ]


def read_all_forms(message: Body) -> list[list[Any]]:
    """Return a message of Chat Completions as read complete, streamed, and from a client."""
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    chunk = {"choices": [{"index": 0, "delta": message, "finish_reason": "stop"}]}
    request = {"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", **message}]}
    canisters = chat_completions.normalize_request(request, None).value.canisters
    return [
        read(
            chat_completions,
            lambda decoder: decoder.decode_response(whole),
            chat_completions.Decoder(provider="vendor"),
        ),
        read(
            chat_completions,
            lambda decoder: [*decoder.decode(chunk), *decoder.finish()],
            chat_completions.Decoder(provider="vendor"),
        ),
        outline(canisters[1:]),
    ]


@pytest.mark.parametrize(
    ("message", "contents"),
    [
        (
            {"tool_calls": [{"id": "x", "custom": NO_CUSTOM, "function": FUNCTION}]},
            [("look", '{"a":1}', "json")],
        ),
        (
            {
                "tool_calls": [
                    {
                        "id": "x",
                        "type": "custom",
                        "custom": {"name": "look", "input": "there"},
                        "function": NO_FUNCTION,
                    }
                ]
            },
            [("look", "there", "text")],
        ),
        ({"content": "Yes.", "function_call": NO_FUNCTION}, [("Yes.", "text")]),
        ({"content": "Yes.", "function_call": {}}, [("Yes.", "text")]),
        (
            {"function_call": NO_FUNCTION, "tool_calls": [{"id": "x", "function": FUNCTION}]},
            [("look", '{"a":1}', "json")],
        ),
        ({"content": "Yes.", "refusal": "", "images": [], "annotations": []}, [("Yes.", "text")]),
    ],
)
def test_the_filled_field_is_read(message: Body, contents: list[Any]) -> None:
    """In an answer, in its pieces, and in a client's message."""
    for found in read_all_forms(message):
        assert found == contents


@pytest.mark.parametrize(
    "sibling",
    [
        {"audio": NO_SOUND},
        {"audio": {}},
        {"tool_calls": [{"index": 0, "type": "function", "id": "", "function": NO_FUNCTION}]},
        {"tool_calls": [{}]},
    ],
)
def test_empty_fields_become_nothing(sibling: Body) -> None:
    """No audio, and no call without a name."""
    whole, streamed, _ = read_all_forms({"content": "Yes.", **sibling})

    assert whole == streamed == [("Yes.", "text")]


@pytest.mark.parametrize("empty", [None, {}, {"name": "", "args": {}}])
def test_a_part_of_gemini_has_the_kind_of_its_filled_field(empty: object) -> None:
    """Null and empty fields of other kinds are ignored."""
    parts = [
        {"functionCall": empty, "text": "Yes.", "inlineData": None},
        {"functionCall": {"name": "look", "args": {"a": 1}}, "text": "", "inlineData": {}},
    ]
    body = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    decoder = generate_content.Decoder(provider="vendor")

    contents = read(generate_content, lambda decoder: decoder.decode_response(body), decoder)

    assert contents == [("Yes.", "text"), ("look", '{"a":1}', "json")]
    request = {"contents": [{"role": "model", "parts": parts}]}
    assert outline(generate_content.normalize_request(request, None).value.canisters) == contents


def test_empty_fields_of_an_ollama_message_are_ignored() -> None:
    """Calls without a name, empty images and empty thoughts."""
    calls = [{"id": "", "function": {"name": "", "arguments": {}}}, {"function": None}]
    message = {"content": "Yes.", "thinking": "", "images": [], "tool_calls": calls}
    decoder = ollama_chat.Decoder(provider="vendor")
    body = {"message": message, "done": True, "done_reason": "stop"}

    contents = read(ollama_chat, lambda decoder: decoder.decode_response(body), decoder)

    assert contents == [("Yes.", "text")]


def test_the_type_of_an_item_or_a_block_decides() -> None:
    """In Responses and Messages, whatever empty fields are there."""
    item = {"type": "function_call", "call_id": "x", **FUNCTION, "content": [], "input": ""}
    body = {"id": "r", "status": "completed", "output": [item]}
    decoder = responses.Decoder(provider="vendor")
    contents = read(responses, lambda decoder: decoder.decode_response(body), decoder)
    assert contents == [("look", '{"a":1}', "json")]

    block = {"type": "tool_use", "id": "x", "name": "look", "input": {"a": 1}, "text": ""}
    answer = {"id": "m", "role": "assistant", "content": [block], "stop_reason": "tool_use"}
    decoder = messages.Decoder(provider="vendor")
    contents = read(messages, lambda decoder: decoder.decode_response(answer), decoder)
    assert contents == [("look", '{"a":1}', "json")]
