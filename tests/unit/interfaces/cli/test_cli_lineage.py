"""``vibe log``, ``diff``, ``blame``, ``cherry-pick`` and ``merge``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.stores.talks import exchange, fork, save
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.messages.canisters import AssistantCanister, UserCanister

Vibe = Callable[..., Any]


@pytest.fixture
def store(home: Path) -> DirectoryStore:
    """Return the store of the user."""
    return DirectoryStore(home / ".local/share/vibe-llms")


@pytest.fixture
def forks(store: DirectoryStore) -> tuple[str, str]:
    """Return the ids of a conversation and of its fork."""
    first = save(store, [*exchange("one"), *exchange("two stacks")], name="Piles")
    return first, fork(store, first, [*exchange("two heaps"), *exchange("three")], at=2)


def test_a_pipe_gets_marked_words(vibe: Vibe, forks: tuple[str, str]) -> None:
    shown = vibe("diff", *forks)
    assert shown.code == ExitCode.INCOMPLETE
    assert "Common: 2 messages (shared), up to [1] assistant: one!" in shown.out
    assert "two [-stacks-]{+heaps+}\n" in shown.out
    assert "Turn 3: only in the second" in shown.out
    assert "\x1b" not in shown.out
    same = vibe("diff", forks[0], forks[0])
    assert same.code == ExitCode.SUCCESS
    assert "No differences." in same.err


def test_equal_lines_far_from_a_change_are_left_out(vibe: Vibe, store: DirectoryStore) -> None:
    lines = [f"line {number}" for number in range(40)]
    first = save(store, [UserCanister("\n".join(lines))])
    lines[20] = "changed"
    second = save(store, [UserCanister("\n".join(lines))])
    shown = vibe("diff", first, second).out
    kept = [f"line {number}" for number in (18, 19, 21, 22)]
    assert all(line in shown for line in kept)
    assert "line 10" not in shown
    assert shown.count("…") == 2
    words = vibe("diff", first, second, "--json").read_json()["turns"][0]["messages"][0]["words"]
    assert "line 10" in words[0][1]


def test_a_terminal_gets_colours(
    vibe: Vibe, forks: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vibe_llms.interfaces.cli.commands.diffing.wants_colour", lambda _: True)
    monkeypatch.setattr("vibe_llms.interfaces.cli.output.wants_colour", lambda _: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "two \x1b[31mstacks\x1b[0m\x1b[32mheaps\x1b[0m" in vibe("diff", *forks).out


def test_programs_get_the_difference_as_json(vibe: Vibe, forks: tuple[str, str]) -> None:
    found = vibe("diff", *forks, "--json").read_json()
    assert (found["first"], found["second"]) == forks
    assert {**found["common"], "last": found["common"]["last"]["index"]} == {
        "messages": 2, "turns": 1, "shared": 2, "last": 1
    }  # fmt: skip
    assert [(turn["first"], turn["second"]) for turn in found["turns"]] == [(2, 2), (None, 3)]
    assert ["removed", "stacks"] in found["turns"][0]["messages"][0]["words"]
    assert found["turns"][1]["messages"][0]["first"] is None


def test_log_numbers_the_turns(vibe: Vibe, forks: tuple[str, str]) -> None:
    rows = [line.split("\t") for line in vibe("log", forks[1]).out.splitlines()]
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("1", "[0]-[1]", "one"),
        ("2", "[2]-[3]", "two heaps"),
        ("3", "[4]-[5]", "three"),
    ]
    turns = vibe("log", forks[1], "--json").read_json()["turns"]
    assert [turn["start"] for turn in turns] == [0, 2, 4]


def test_the_graph_draws_forks_with_short_ids(
    vibe: Vibe, store: DirectoryStore, forks: tuple[str, str]
) -> None:
    last = store.fork(forks[0], child="zzzz-last")
    lines = vibe("log", "--graph", forks[1]).out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["├─", "└─"]
    assert f"{forks[1][:4]}* Piles" in lines[1]
    assert "forked at [2]" in lines[1]
    assert lines[0].startswith(f"{forks[0][:4]}  Piles")
    tree = vibe("log", "--graph", "--json", last).read_json()
    assert [each["id"] for each in tree["conversations"]] == [*forks, last]


def test_blame_names_the_conversation_of_each_message(vibe: Vibe, forks: tuple[str, str]) -> None:
    rows = [line.split("\t") for line in vibe("blame", forks[1]).out.splitlines()]
    assert [row[2] for row in rows] == [forks[0]] * 2 + [forks[1]] * 4
    assert rows[1][4:7] == ["anthropic:claude-sonnet-4-5", "", "$0.30"]
    (first, *_) = vibe("blame", forks[1], "--json").read_json()
    assert (first["turn"], first["role"], first["conversation"]) == (1, "user", forks[0])


def test_cherry_pick_prints_the_new_fork(vibe: Vibe, store: DirectoryStore) -> None:
    source = save(store, [*exchange("one"), *exchange("two"), *exchange("three")])
    target = save(store, exchange("start"))
    picked = vibe("cherry-pick", source, "1,3-3", target)
    assert f"Forked {target}, added 4 messages." in picked.err
    texts = [each.text for each in store.read(picked.out.strip()).canisters]
    assert texts == ["start", "start!", "one", "one!", "three", "three!"]
    assert f"from {source[:4]}" in vibe("log", "--graph", target).out
    again = vibe("cherry-pick", source, "3", picked.out.strip(), "--json").read_json()
    assert (again["id"], again["is_new"], again["parent"]) == (picked.out.strip(), False, None)


@pytest.mark.parametrize("turns", ["", "0", "3-2", "a", "1,,2", "-1", "1-999999999"])
def test_invalid_turns_are_a_usage_error(
    vibe: Vibe, store: DirectoryStore, forks: tuple[str, str], turns: str
) -> None:
    refused = vibe("cherry-pick", "--", forks[0], turns, forks[1])
    assert refused.code == ExitCode.USAGE
    assert "2,4-6" in refused.err
    assert set(store.survey()) == set(forks)


def test_merge_reports_conflicts(vibe: Vibe, store: DirectoryStore, forks: tuple[str, str]) -> None:
    merged = vibe("merge", *forks, "--json").read_json()
    assert (merged["parent"], merged["added"], merged["conflicts"]) == (forks[0], 4, [])
    store.append(forks[0], [UserCanister("Again?")])
    third = fork(store, forks[0], [AssistantCanister("No.")], at=5)
    store.append(forks[0], [AssistantCanister("Yes.")])
    shown = vibe("merge", forks[0], third)
    assert "Conflict: Turn 3" in shown.err
    assert store.read(shown.out.strip()).canisters[-1].text == "No."
    contained = vibe("merge", third, third)
    assert (contained.out.strip(), contained.code) == (third, ExitCode.SUCCESS)
    assert vibe("merge", *forks, "--take", "second").code == ExitCode.SUCCESS
    assert vibe("merge", forks[0], save(store, exchange("x"))).code == ExitCode.REQUEST
