"""An export of others is read with work of its size."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.quality.working import LINEAR, find_growth
from vibe_llms.conversations.exchange.chatgpt import read_chatgpt
from vibe_llms.conversations.exchange.claude import read_claude
from vibe_llms.conversations.exchange.llm_logs import read_llm

MOMENT = "2026-01-01T00:00:00Z"


def say(name: str, parent: str, children: list[str], role: str = "user") -> dict[str, Any]:
    """Return a node of ChatGPT's tree."""
    message = {
        "id": name,
        "author": {"role": role},
        "create_time": 1_700_000_000,
        "content": {"content_type": "text", "parts": ["hi"]},
        "metadata": {},
    }
    return {"id": name, "parent": parent, "children": children, "message": message}


def write_chain(count: int) -> list[dict[str, Any]]:
    """Return ChatGPT's export of one conversation that goes straight on."""
    nodes = {"n": {"id": "n", "parent": None, "children": ["n0"], "message": None}}
    for number in range(count):
        parent = "n" if number == 0 else f"n{number - 1}"
        children = [f"n{number + 1}"] if number < count - 1 else []
        role = "assistant" if number % 2 else "user"
        nodes[f"n{number}"] = say(f"n{number}", parent, children, role)
    return [{"title": "t", "id": "c", "mapping": nodes, "current_node": f"n{count - 1}"}]


def write_forks(count: int) -> list[dict[str, Any]]:
    """Return ChatGPT's export of one whose first message was written anew very often."""
    names = [f"w{number}" for number in range(count)]
    nodes: dict[str, Any] = {"n": {"id": "n", "parent": None, "children": names, "message": None}}
    nodes |= {name: say(name, "n", []) for name in names}
    return [{"title": "t", "id": "c", "mapping": nodes, "current_node": names[-1]}]


def write_claude(count: int) -> list[dict[str, Any]]:
    """Return Claude's export of one conversation."""
    messages = [
        {
            "uuid": f"m{number}",
            "sender": "assistant" if number % 2 else "human",
            "text": "hi",
            "content": [{"type": "text", "text": "hi"}],
            "created_at": MOMENT,
        }
        for number in range(count)
    ]
    return [
        {
            "uuid": "u",
            "name": "n",
            "created_at": MOMENT,
            "updated_at": MOMENT,
            "chat_messages": messages,
        }
    ]


def write_llm(count: int) -> list[dict[str, Any]]:
    """Return the log of llm, of one conversation."""
    return [
        {
            "id": f"r{number:09}",
            "model": "m",
            "prompt": "p",
            "response": "r",
            "conversation_id": "c",
            "datetime_utc": "2026-01-01T00:00:00",
        }
        for number in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "read"),
    [
        (write_chain, read_chatgpt),
        (write_forks, read_chatgpt),
        (write_claude, read_claude),
        (write_llm, read_llm),
    ],
    ids=["chatgpt", "forks of chatgpt", "claude", "llm"],
)
def test_twice_as_much_is_read_with_twice_the_work(
    tmp_path: Path,
    write: Callable[[int], list[dict[str, Any]]],
    read: Callable[[Path], Any],
) -> None:
    """Of one conversation with so many messages."""

    def produce(count: int) -> Callable[[], object]:
        path = tmp_path / f"{count}.json"
        path.write_text(json.dumps(write(count)), encoding="utf-8")
        return lambda: list(read(path))

    lines, size = find_growth(produce, 60)

    assert lines <= LINEAR
    assert size <= LINEAR
