"""``vibe show --cache``: the use of prompt caches, for people and for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.interfaces.cli.cached_turns import write_cached_turns
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, Origin, Usage, UserCanister
from vibe_llms.telemetry.cached_turns import survey_cached_turns

Vibe = Callable[..., Any]
START = datetime(2026, 11, 1, 12, tzinfo=UTC)


def converse(*usages: tuple[int, Usage]) -> list[AnyCanister]:
    """Return a conversation with an answer at each minute."""
    canisters: list[AnyCanister] = []
    for minute, usage in usages:
        at = START + timedelta(minutes=minute)
        origin = Origin(
            provider="anthropic", model="claude-sonnet-4-5", protocol="messages", usage=usage
        )
        canisters += [
            UserCanister("Well?", timestamp=at),
            AssistantCanister("Well.", timestamp=at, origin=origin),
        ]
    return canisters


TALK = converse(
    (0, Usage(input_tokens=100, cache_read_tokens=0, cache_write_tokens=9000)),
    (1, Usage(input_tokens=900, cache_read_tokens=9000, cache_write_tokens=100)),
    (20, Usage(input_tokens=10, cache_read_tokens=0, cache_write_tokens=9990)),
)


@pytest.fixture
def identity(home: Path) -> str:
    """Return the id of a stored conversation."""
    conversation = Conversation()
    conversation.add_canisters(TALK)
    conversation.save(DirectoryStore(home / ".local/share/vibe-llms"))
    return conversation.id


def test_a_pipe_gets_a_line_for_each_answer(vibe: Vibe, identity: str) -> None:
    shown = vibe("show", "--cache", identity)
    rows = [line.split("\t") for line in shown.out.splitlines()]
    assert [row[3:7] for row in rows] == [
        ["0", "9,000", "100", "0%"],
        ["9,000", "100", "900", "90%"],
        ["0", "9,990", "10", "0%"],
    ]
    assert [row[0] for row in rows] == ["[1]", "[3]", "[5]"]
    assert rows[0][7].startswith("-$")
    assert rows[2][8] == "broken: 19 min passed, and the vendor keeps a prefix for 5 min"
    assert "9,000 of 29,100 input tokens were read from a cache (31%)" in shown.err
    assert "prefix broken 1 time." in shown.err


def test_a_program_gets_numbers(vibe: Vibe, identity: str) -> None:
    document = vibe("show", "--cache", "--json", identity).read_json()
    assert document["id"] == identity
    second, third = document["turns"][1:]
    assert (second["read"], second["share"], second["is_broken"]) == (9000, 0.9, False)
    assert third["is_broken"]
    assert len(third["causes"]) == 1
    assert document["currency"] == "USD"
    assert sum(float(turn["saved"]) for turn in document["turns"]) == pytest.approx(
        float(document["saved"])
    )


def test_a_terminal_gets_headers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    write_cached_turns(survey_cached_turns(TALK))
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == [
        *("message", "time", "model", "read", "written", "uncached", "share", "saved", "prefix"),
    ]
    assert len(rows) == 3


def test_a_conversation_without_a_cache_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    write_cached_turns(survey_cached_turns(converse((0, Usage(input_tokens=9)))))
    assert "No prefix was cached" in capsys.readouterr().err
    write_cached_turns(survey_cached_turns([UserCanister("a")]))
    assert "No answer of this conversation has a usage" in capsys.readouterr().err


def test_usage_and_cache_exclude_each_other(vibe: Vibe, identity: str) -> None:
    refused = vibe("show", "--cache", "--usage", identity)
    assert refused.code == ExitCode.USAGE
    assert "cannot be combined" in refused.err
