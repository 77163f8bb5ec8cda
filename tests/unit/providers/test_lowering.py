"""Custom tools go as functions with one text, and their calls come back as free text."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.chat_completions import Quirks
from vibe_llms.dialects.responses.serving.invocations import normalize_invocables
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    StreamEvent,
)
from vibe_llms.messages.canisters import InvocationCanister, Owner, UserCanister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.providers.lowering import CustomCalls, find_lowered, lower

GRAMMAR = 'start: "*** Begin Patch" LF\n'
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}},
    {
        "type": "custom",
        "name": "apply_patch",
        "description": "Do not wrap the patch in JSON.",
        "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
    },
    {"type": "web_search"},
]


def ask(tools: Sequence[dict[str, Any]] = TOOLS) -> Request:
    invocables, _ = normalize_invocables({"tools": tools}).value
    return Request(canisters=[UserCanister("Well?")], invocables=invocables)


@pytest.mark.parametrize(
    ("protocol", "quirks", "is_lowered"),
    [
        ("messages", None, True),
        ("generate_content", None, True),
        ("ollama_chat", None, True),
        ("local", None, True),
        ("chat_completions", Quirks(takes_custom=False), True),
        ("chat_completions", Quirks(takes_custom=False, takes_tools=False), False),
        ("chat_completions", Quirks(), False),
        ("chat_completions", None, False),
        ("responses", None, False),
        ("converse", None, False),
    ],
)
def test_custom_tools_alone_are_lowered_where_there_are_none(
    protocol: str, quirks: Any, is_lowered: bool
) -> None:
    """Neither functions nor a vendor's own tools."""
    assert find_lowered(ask(), protocol, quirks) == ({"apply_patch"} if is_lowered else set())


def test_the_model_learns_of_the_grammar() -> None:
    """And that the text goes into JSON after all; the change is told."""
    lowered = lower(ask(), {"apply_patch"})

    (other, tool, search) = lowered.value.invocables
    assert (other, search) == (ask().invocables[0], ask().invocables[2])
    assert tool.schema is not None
    assert tool.schema["required"] == ["input"]
    assert tool.description.startswith("Do not wrap the patch in JSON.\n\n")
    assert tool.description.endswith(f"Lark grammar:\n\n{GRAMMAR}")
    assert "'input'" in tool.description
    assert tool.native is None
    assert [(loss.kind, loss.path) for loss in lowered.losses] == [("coerced", "invocables[1]")]


def test_earlier_calls_are_calls_of_the_function() -> None:
    """So that the model sees its own; those of other tools, and of vendors, stay as they are."""
    calls = [
        InvocationCanister(invocation_id="a", name="apply_patch", arguments='x"\n', form="text"),
        InvocationCanister(invocation_id="b", name="gone", arguments="x", form="text"),
        InvocationCanister(invocation_id="c", name="apply_patch", arguments="{}"),
        InvocationCanister(
            invocation_id="d", name="apply_patch", arguments="x", form="text", owner=Owner.VENDOR
        ),
    ]
    request = attrs.evolve(ask(), canisters=(*calls, *ask().canisters))

    first, *others, _ = lower(request, {"apply_patch"}).value.canisters

    assert isinstance(first, InvocationCanister)
    assert (first.form, first.parse_arguments()) == ("json", {"input": 'x"\n'})
    assert others == calls[1:]


def test_what_else_is_said_of_a_custom_tool_stays_beside_it() -> None:
    """So that the dialect can tell what of it does not go."""
    tool = {**TOOLS[1], "defer_loading": True}
    (lowered,) = lower(ask([tool]), {"apply_patch"}).value.invocables
    assert lowered.native is not None
    assert json.loads(lowered.native.data) == {"defer_loading": True}


def test_a_custom_tool_without_any_words_is_described() -> None:
    """A function needs a description."""
    lowered = lower(ask([{"type": "custom", "name": "exec"}]), {"exec"}).value
    assert isinstance(lowered.invocables[0], InvocableDescription)
    assert lowered.invocables[0].description.startswith("Call it as a function")


def restore(
    pieces: Sequence[str], *, final: str | None = None, name: str = "f", owner: Owner = Owner.OURS
) -> tuple[list[str], StreamEvent, StreamEvent]:
    """Returns the pieces of a call as they are restored, and how it begins and ends."""
    item = None
    if final is not None:
        item = InvocationCanister(invocation_id="c", name=name, arguments=final)
    events: list[StreamEvent] = [
        ContentStartedEvent(index=3, kind="invocation", name=name, owner=owner),
        ContentDeltaEvent(3, "Nothing.", "text"),  # of another channel
        *(ContentDeltaEvent(3, piece, "arguments") for piece in pieces),
        ContentFinishedEvent(index=3, item=item),
    ]
    calls = CustomCalls({"f"})
    restored = [each for event in events for each in calls.restore([event])]
    said = [
        each.text
        for each in restored
        if isinstance(each, ContentDeltaEvent) and each.channel == "arguments"
    ]
    return said, restored[0], restored[-1]


TEXTS = st.text(st.sampled_from('ab"\\\n\t/{}é天😀\u2028\ud7ff\ue000'), max_size=20)


@given(
    text=TEXTS,
    is_ascii=st.booleans(),
    cuts=st.lists(st.integers(0, 120), max_size=12),
    has_final=st.booleans(),
)
def test_a_text_comes_back_in_whatever_pieces(
    text: str, is_ascii: bool, cuts: list[int], has_final: bool
) -> None:
    """Streamed and whole are the same."""
    written = json.dumps({"input": text}, ensure_ascii=is_ascii)
    places = sorted({0, len(written), *(cut for cut in cuts if cut < len(written))})
    pieces = [written[a:b] for a, b in itertools.pairwise(places)]

    said, begun, ended = restore(pieces, final=written if has_final else None)

    assert "".join(said) == text
    assert isinstance(begun, ContentStartedEvent)
    assert begun.form == "text"
    assert isinstance(ended, ContentFinishedEvent)
    if has_final:
        assert isinstance(ended.item, InvocationCanister)
        assert (ended.item.form, ended.item.arguments) == ("text", text)
    _, _, whole = restore([], final=written)
    assert isinstance(whole, ContentFinishedEvent)
    assert isinstance(whole.item, InvocationCanister)
    assert (whole.item.form, whole.item.arguments) == ("text", text)


@given(text=st.text("ab\n", min_size=1, max_size=200))
def test_a_text_is_told_as_it_comes(text: str) -> None:
    """A client shows the patch while it is written: no piece waits for the next one."""
    written = json.dumps({"input": text})
    said, _, _ = restore(written)
    assert len(said) == len(text)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('{"input": "a\\nb', "a\nb"),  # a limit has cut it
        ('{"input": "a\\', "a"),
        ('{"input": "a\\u00', "a"),
        ('{"input": "a\\ud83d', "a\ufffd"),
        ('{"input": "a\\ud83dz"}', "a\ufffdz"),
        ('{"input": "a\\ude00"}', "a\ufffd"),
        ('{"input": "a\\qz"}', "a\\qz"),
        ('{"input": "a", "why": "b"}', "a"),
        ('{"why": "b", "input": "a"}', "a"),
        ('{"patch": "a"}', "a"),
        ('"a"', "a"),
        ("*** Begin Patch", "*** Begin Patch"),
        ('{"a": 1, "b": 2}', '{"a": 1, "b": 2}'),
        ('{"input": 7}', '{"input": 7}'),
        ("{}", ""),
        ("", ""),
        ("*" * 700, "*" * 700),
        ('{"input": "' + "a" * 700, "a" * 700),
    ],
)
def test_whatever_a_model_writes_comes_to_a_text(written: str, text: str) -> None:
    """It is not held to the schema everywhere, and may be cut off."""
    for pieces in ([written], [*written]):
        said, _, _ = restore(pieces)
        assert "".join(said) == text
    _, _, ended = restore([], final=written)
    assert isinstance(ended, ContentFinishedEvent)
    assert isinstance(ended.item, InvocationCanister)
    assert ended.item.arguments == text


@pytest.mark.parametrize(("name", "owner"), [("g", Owner.OURS), ("f", Owner.VENDOR)])
def test_other_calls_stay_as_they_are(name: str, owner: Owner) -> None:
    """Those of functions, and those that a vendor executes itself."""
    said, begun, ended = restore(['{"input": ', '"a"}'], final="{}", name=name, owner=owner)
    assert said == ['{"input": ', '"a"}']
    assert isinstance(begun, ContentStartedEvent)
    assert isinstance(ended, ContentFinishedEvent)
    assert isinstance(ended.item, InvocationCanister)
    assert (begun.form, ended.item.form, ended.item.arguments) == ("json", "json", "{}")
