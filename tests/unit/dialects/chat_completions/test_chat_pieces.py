"""Pieces of invocations are joined correctly, whatever a host does with ids, indexes and names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.chat_completions import Decoder
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.providers.assembly import Assembler

Piece = dict[str, Any]


def piece(arguments: str | None = None, name: str | None = None, **address: Any) -> Piece:
    """Make one piece of an invocation; fields with None are left out."""
    fields = {"name": name, "arguments": arguments}
    return {**address, "function": {k: v for k, v in fields.items() if v is not None}}


def read(pieces: Iterable[Piece]) -> list[tuple[str, str]]:
    """Read a stream with one piece in each chunk; return names and arguments."""
    decoder = Decoder(provider="vendor")
    chunks = [{"tool_calls": [each]} for each in pieces]
    assembler = Assembler(provider="vendor", model="model")
    for fields, reason in [*((chunk, None) for chunk in chunks), ({}, "tool_calls")]:
        choice = {"index": 0, "delta": fields, "finish_reason": reason}
        for event in decoder.decode({"id": "chat-1", "choices": [choice]}):
            assembler.feed(event)
    for event in decoder.finish():
        assembler.feed(event)
    return [
        (each.name, each.arguments)
        for each in assembler.produce_canisters()
        if isinstance(each, InvocationCanister)
    ]


A, B = '{"a":1}', '{"a":2}'
TWICE = [("f", A), ("f", B)]


@pytest.mark.parametrize(
    "pieces",
    [
        [piece(A, "f", id="x", index=0), piece(B, "f", id="x", index=1)],
        [
            piece("", "f", id="x", index=0),
            piece("", "f", id="x", index=1),
            piece('{"a"', id="x", index=1),
            piece(A, id="x", index=0),
            piece(":2}", id="x", index=1),
        ],
        [piece(A, "f", id="x", index=0), piece(B, "f", id="x", index=0)],
        [piece(A, "f", id="x"), piece(B, "f", id="x")],
        [piece(A, "f", id="", index=0), piece(B, "f", id="", index=1)],
        [piece(A, "f", id="", index=0), piece(B, "f", id="", index=0)],
        [piece(A, "f", index=None), piece(B, "f", index=None)],
        [piece(A, "f", id="x", index=0), piece("", "f", id="y", index=0), piece(B, index=0)],
    ],
    ids=[
        "one id, two indexes",
        "one id, two indexes, in turns",
        "one id, one index",
        "one id, no index",
        "empty ids",
        "empty ids, one index",
        "nothing but names",
        "two ids, one index",
    ],
)
def test_two_invocations_stay_separate(pieces: list[Piece]) -> None:
    """Whatever they have in common, each has its own arguments."""
    assert read(pieces) == TWICE


@pytest.mark.parametrize(
    "pieces",
    [
        [piece("", "f", id="x", index=0), piece('{"a"', index=0), piece(":1}", index=0)],
        [piece('{"a"', "f", id="x", index=0), piece(":1}", "f", id="x", index=0)],
        [piece('{"a"', "f", id="x", index=0), piece(":1}", id="y", index=0)],
        [piece('{"a"', "f", id="x"), piece(":1}", None, id="y")],
        [piece('{"a"', "f", id="x", index=0), piece(":1}", index=1)],
        [piece('{"a"', "f", id="x", index=0), piece(":1}", id="x", index=1)],
        [piece('{"a"', "f", id="x", index=None), piece(":1}", "", id=None, index=None)],
        [piece('{"a"', "f"), piece(":1}", "f")],
        [piece("{", "f"), piece('"a', "f"), piece('":1', "f"), piece("}", "f")],
        [piece('{"a"', None, id="x", index=0), piece(":1}", "f", index=0)],
        [piece(A, "f", id="x", index=0), piece("", "f", id="x", index=0)],
        [piece(A, "f", id="x", index=0), piece(A, "f", id="x", index=0)],
        [piece("", "", id="x", index=0), piece(A, "f", id="x", index=0)],
    ],
    ids=[
        "id at first",
        "id and name in each",
        "an id of its own for each piece",
        "an id of its own for each piece, no index",
        "an index that counts pieces",
        "an index that counts pieces, one id",
        "nothing but a name",
        "a name in each piece, and nothing else",
        "a name in each small piece, and nothing else",
        "the name comes late",
        "the name once more at the end",
        "the whole of it once more at the end",
        "an empty name at first",
    ],
)
def test_one_invocation_is_not_divided(pieces: list[Piece]) -> None:
    """Whatever a host repeats, omits or counts."""
    assert read(pieces) == [("f", A)]


@pytest.mark.parametrize("first", ['{"a"', "{}"], ids=["cut off", "whole"])
@pytest.mark.parametrize("address", [{"index": 0}, {"index": None}, {}, {"id": "", "index": 0}])
def test_another_name_is_another_invocation(first: str, address: Piece) -> None:
    """Once there are arguments, another name begins another invocation."""
    pieces = [piece(first, "f", **address), piece(B, "g", **address)]

    assert read(pieces) == [("f", first), ("g", B)]


@pytest.mark.parametrize("again", [{}, {"id": "x"}], ids=["id at first", "id in each"])
def test_a_name_may_come_in_pieces(again: dict[str, str]) -> None:
    """Until the first piece of the arguments."""
    pieces = [
        piece("", "edit_ex", id="x", index=0),
        piece("", "isting", index=0, **again),
        piece(None, "_file", index=0, **again),
        piece(A, index=0, **again),
    ]

    assert read(pieces) == [("edit_existing_file", A)]


def test_a_call_without_arguments_keeps_its_position() -> None:
    """It waits for arguments only until the next content."""
    decoder = Decoder(provider="vendor")
    assembler = Assembler(provider="vendor", model="model")
    for fields in (
        {"tool_calls": [piece("", "f", id="x", index=0)]},
        {"reasoning": "Hm."},
        {"tool_calls": [piece("", "g", id="y", index=1)]},
        {"content": "Well."},
        {"tool_calls": [piece("", "h", id="z", index=2)]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
        {"tool_calls": [piece("{}", "i", id="w", index=3)]},
    ):
        for event in decoder.decode({"id": "chat-1", "choices": [{"index": 0, "delta": fields}]}):
            assembler.feed(event)
    for event in decoder.decode({"choices": [{"index": 0, "finish_reason": "stop"}]}):
        assembler.feed(event)
    for event in decoder.finish():
        assembler.feed(event)

    names = [getattr(each, "name", "words") for each in assembler.produce_canisters()]
    assert names == ["f", "words", "g", "words", "h", "words", "i"]


@given(
    st.lists(
        st.fixed_dictionaries({"a": st.integers() | st.text('\\"{}a', max_size=9)}),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(
        ["index", "index, one id", "index, id in each", "ids, index 0", "ids", "null", "names"]
    ),
    st.integers(1, 9),
    st.booleans(),
)
def test_any_sufficient_identification_gives_the_same(
    arguments: list[dict[str, Any]], manner: str, size: int, named: bool
) -> None:
    """Any combination of ids, indexes and names that distinguishes the invocations."""
    texts = [json.dumps(each) for each in arguments]
    pieces = []
    for number, text in enumerate(texts):
        head = {
            "index": {"index": number, "id": f"id{number}"},
            "index, one id": {"index": number, "id": "same"},
            "index, id in each": {"index": number, "id": f"id{number}"},
            "ids, index 0": {"index": 0, "id": f"id{number}"},
            "ids": {"id": f"id{number}"},
            "null": {"index": None, "id": f"id{number}"},
            "names": {},
        }[manner]
        rest = {k: v for k, v in head.items() if k == "index" or manner == "index, id in each"}
        again = "f" if named or manner == "names" else None
        cuts = [text[start : start + size] for start in range(0, len(text), size)]
        pieces.append(piece("", "f", **head))
        pieces += [piece(each, again, **rest) for each in cuts]

    assert read(pieces) == [("f", text) for text in texts]
