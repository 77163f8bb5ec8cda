"""``vibe runs diff --live`` says before what it asks, and names the first step that differs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vibe_llms import Conversation, Engine
from vibe_llms.interfaces.cli.access import open_store

Vibe = Callable[..., Any]


@pytest.fixture
def identity(home: Path) -> str:
    """A run that has ended."""
    conversation = Conversation()
    conversation.add_user_message("Hello.")
    asyncio.run(Engine("scripted:echo", store=open_store()).answer(conversation))
    return conversation.id


def test_it_says_what_it_asks_and_what_came_of_it(vibe: Vibe, identity: str) -> None:
    """On a machine of one's own nothing is paid, and nobody is asked for consent."""
    same = vibe("runs", "diff", identity, "--live", "--cap", "0.10", "--words")
    told = json.loads(vibe("runs", "diff", identity, "--live", "--cap", "0.10", "--json").out)

    assert same.code == 0, same
    assert "Asks scripted:echo up to 1 time, for at most $0.00" in same.err
    assert "All 1 step are unchanged" in same.err
    assert told["of"] == 1
    assert told["steps"][0]["now"]["text"] == "Hello."


def test_another_answer_is_shown_beside_the_recorded_one(
    vibe: Vibe, identity: str, tmp_path: Path
) -> None:
    """With the exit code of diff."""
    file = tmp_path / "said.toml"
    file.write_text('[[responses]]\ncontents = [{ text = "Bye." }]\n')

    words = ("runs", "diff", identity, "--live", "--cap", "1", "--words")
    outcome = vibe(*words, "--model", f"scripted:{file}")

    assert outcome.code == 1, outcome
    assert "- Hello.\n+ Bye.\n" in outcome.out
    assert "(step 1 of 1)" in outcome.err


def test_what_does_not_go_together_is_refused(vibe: Vibe, identity: str) -> None:
    """A live comparison has one run and a cap; a stored one has two."""
    for words, reason in (
        ((identity, "--live"), "--cap"),
        ((identity, identity, "--live", "--cap", "1"), "one run"),
        ((identity, identity, "--cap", "1"), "--cap needs --live"),
        ((identity,), "Name a second run"),
    ):
        outcome = vibe("runs", "diff", *words)
        assert outcome.code == 2
        assert reason in outcome.err
