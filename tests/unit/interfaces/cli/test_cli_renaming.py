"""A word that may be the beginning of an id, or of what somebody says, is taken for neither."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.conversations import Conversation, DirectoryStore
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.messages.canisters import UserCanister

Vibe = Callable[..., Any]
WALK = "nicew2lk7mountai"
OTHER = "zebra2345zebra23"


@pytest.fixture
def store(home: Path) -> DirectoryStore:
    """Two conversations, of which the second is the newest."""
    from vibe_llms.application import Application

    store = DirectoryStore(Application.load().configuration.data_directory)
    for identity in (WALK, OTHER):
        Conversation(id=identity, canisters=[UserCanister("Hello")]).save(store)
    return store


def read_names(store: DirectoryStore) -> tuple[str | None, str | None]:
    return store.read_metadata(WALK).name, store.read_metadata(OTHER).name


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("a nice walk",), (None, "a nice walk")),
        (("ni",), (None, "ni")),
        ((WALK, "a", "walk"), ("a walk", None)),
        (("nice", "a", "walk"), ("a walk", None)),
        (("NICEW2", "a walk"), ("a walk", None)),
        ((WALK, ""), (None, None)),
    ],
)
def test_an_id_or_its_first_four_letters_come_before_a_name(
    vibe: Vibe, store: DirectoryStore, words: tuple[str, ...], names: tuple[str | None, str | None]
) -> None:
    """A name alone is that of the newest; which one was renamed is said."""
    outcome = vibe("rename", *words)

    assert outcome.code == 0
    assert read_names(store) == names
    renamed = OTHER if len(words) == 1 else WALK
    assert renamed in outcome.err


@pytest.mark.parametrize("name", ["two\nlines", "x" * 201, "a\x1b[2Jb"])
def test_what_is_no_line_names_nothing(vibe: Vibe, store: DirectoryStore, name: str) -> None:
    outcome = vibe("rename", WALK, name)

    assert outcome.code == ExitCode.REQUEST
    assert read_names(store) == (None, None)
    (line,) = outcome.err.splitlines()
    assert "name" in line
    assert "\x1b" not in line


@pytest.mark.parametrize("first", ["n", "ni", "nic", "a", "walking"])
def test_what_may_be_a_name_renames_nothing(vibe: Vibe, store: DirectoryStore, first: str) -> None:
    """Both commands that may have been meant are told, as far as there are two."""
    outcome = vibe("rename", first, "nice", "walk")

    assert outcome.code == ExitCode.NOT_FOUND
    assert read_names(store) == (None, None)
    assert f"vibe rename '{first} nice walk'" in outcome.err
    assert (f"vibe rename {WALK} 'nice walk'" in outcome.err) == (first in "nice")


def test_what_may_be_a_question_continues_nothing(vibe: Vibe, store: DirectoryStore) -> None:
    """Words behind ``--continue`` that were not quoted go to no conversation that was not meant."""
    refused = vibe("ask", "--continue", "ni", "walk?")
    meant = vibe("ask", "--continue", "nice", "Walk?")

    assert refused.code == ExitCode.NOT_FOUND
    assert "vibe ask 'ni walk?' --continue" in refused.err
    assert f"vibe ask 'walk?' --continue {WALK}" in refused.err
    assert len(store.read(OTHER).canisters) == 1
    assert meant.code == 0
    assert len(store.read(WALK).canisters) == 3


@pytest.mark.parametrize("words", [("Walk?", "--continue", "ni"), ("--continue=ni", "Walk?")])
def test_what_is_surely_an_id_may_be_short(
    vibe: Vibe, store: DirectoryStore, words: tuple[str, ...]
) -> None:
    """Where the words are over, or a sign binds it to the option."""
    outcome = vibe("ask", *words)

    assert outcome.code == 0
    assert len(store.read(WALK).canisters) == 3
