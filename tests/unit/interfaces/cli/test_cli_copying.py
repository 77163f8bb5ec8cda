"""``vibe store copy`` says what both sides have, and ends with 7 where something was not copied."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Vibe = Callable[..., Any]


def test_what_both_sides_have_is_a_table_or_a_document(vibe: Vibe, tmp_path: Path) -> None:
    """What is there already is not copied again; what is ahead there is told and left alone."""
    vibe("ask", "-m", "scripted:echo", "hello")

    shown = vibe("store", "copy", "directory", f"{tmp_path}/other")
    told = vibe("store", "copy", f"{tmp_path}/other", f"{tmp_path}/third", "--json")
    (identity,) = json.loads(told.out)["added"]
    vibe("ask", "-m", "scripted:echo", "--continue", identity, "more")
    refused = vibe("store", "copy", f"{tmp_path}/third", "directory", "--json")

    rows = [line.split("\t") for line in shown.out.splitlines()]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows[:2]] == [
        ("conversations", "1", "1", "equal"),
        ("canisters", "2", "2", "equal"),
    ]
    assert "The copy is complete." in shown.err
    document = json.loads(told.out)
    assert document["whole"]
    assert document["kinds"]["events"]["from"] == document["kinds"]["events"]["to"]
    assert refused.code == 7
    assert [identity] == [json.loads(refused.out)["refused"][0]["place"]]


def test_a_place_that_is_none_is_told_in_one_line(vibe: Vibe) -> None:
    """A name that no plugin has, and the same place twice."""
    for words in (("directory", "nowhere"), ("directory", "directory")):
        outcome = vibe("store", "copy", *words)
        assert outcome.code != 0
        assert len(outcome.err.strip().splitlines()) == 1


def test_a_place_that_is_mistyped_is_not_copied_as_an_empty_one(vibe: Vibe, home: Path) -> None:
    """Nothing is made of it either, not even of a URL, which has separators as a path has."""
    for source, target, told in (
        ("./mistyped", "./other", "./mistyped does not exist."),
        ("directory", "sqlite:///x.db", "Unknown store sqlite://…"),
        ("mysql://me:secret@x/y", "./other", "Unknown store mysql://…"),
    ):
        before = sorted(home.iterdir())
        outcome = vibe("store", "copy", source, target)
        assert outcome.code in (3, 7)
        assert told in outcome.err
        assert "secret" not in outcome.err
        assert sorted(home.iterdir()) == before
