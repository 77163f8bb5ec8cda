"""The rest of an answer after what was streamed of it."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_llms.dialects.chat_completions.serving.remainders import Streamed, find_rest

TEXT = {"type": "text", "text": "Hel"}


@pytest.mark.parametrize(
    ("deltas", "message", "rest", "paths"),
    [
        ([{"content": "Hel"}], {"content": "Hello"}, {"content": "lo"}, []),
        ([{"content": "Hel"}], {"content": "Help"}, {"content": "p"}, []),
        ([{"content": "Hel"}], {"content": "No"}, {}, ["message.content"]),
        (
            [{"reasoning_details": ["a"]}],
            {"reasoning_details": ["b"]},
            {},
            ["message.reasoning_details"],
        ),
        (
            [{"reasoning_details": ["a"]}],
            {"reasoning_details": ["a", "b"]},
            {"reasoning_details": ["b"]},
            [],
        ),
        ([{"content": [TEXT]}], {"content": ["Hello"]}, {}, ["message.content"]),
        (
            [{"content": [{"type": "thinking", "thinking": [TEXT]}]}],
            {"content": ["Hello"]},
            {},
            ["message.content"],
        ),
        (
            [{"content": [{"type": "thinking", "thinking": [TEXT]}]}],
            {"content": [{"type": "thinking", "thinking": [TEXT], "closed": True}, "more"]},
            {"content": [{"type": "thinking", "thinking": [], "closed": True}, "more"]},
            [],
        ),
        ([], {"content": ["Hello"]}, {"content": ["Hello"]}, []),
    ],
)
def test_items_that_are_no_objects_are_compared_too(
    deltas: list[dict[str, Any]], message: dict[str, Any], rest: dict[str, Any], paths: list[str]
) -> None:
    """A vendor's own details may be texts: an error would end the stream without its end."""
    found, losses = find_rest(message, Streamed(runs=[*deltas]).join())
    assert found == rest
    assert [loss.path for loss in losses] == paths


def test_joining_changes_no_delta() -> None:
    """The frames were sent from them."""
    deltas = [{"content": [dict(TEXT)]}, {"content": "lo"}]
    assert Streamed(runs=[*deltas]).join() == {
        "content": [{"type": "text", "text": "Hello"}],
        "reasoning_details": [],
    }
    assert deltas == [{"content": [TEXT]}, {"content": "lo"}]
