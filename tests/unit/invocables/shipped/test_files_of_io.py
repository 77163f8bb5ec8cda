"""The ensemble ``io`` reads, writes, edits, lists and searches files."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.runs.invoking import connect_ensembles, produce_ensemble_context
from vibe_llms.exceptions import ConfigurationError, EnsembleError
from vibe_llms.invocables import InvocationContext
from vibe_llms.invocables.invokers import Effect
from vibe_llms.invocables.refusals import Refusal
from vibe_llms.invocables.shipped.grants import DirectoryGrant, Grants, show
from vibe_llms.invocables.shipped.io import directory_listing, survey_ensembles
from vibe_llms.invocables.shipped.io.directory_listing import LISTED_LIMIT
from vibe_llms.invocables.shipped.io.editing import replace_once
from vibe_llms.invocables.shipped.io.ensemble import ByFile, IoEnsemble
from vibe_llms.invocables.shipped.io.file_lines import TEXT_CHARACTERS, LineExtractor
from vibe_llms.invocables.shipped.io.file_writing import replace_file
from vibe_llms.invocables.shipped.io.settings import IoSettings


def produce_io(directory: Path, **options: Any) -> IoEnsemble:
    return IoEnsemble(IoSettings(working_directory=directory, **options))


async def invoke_alone(directory: Path, name: str, /, **arguments: Any) -> tuple[bool, str]:
    """Invokes once; returns whether it went well, and the text."""
    async with connect_ensembles(produce_io(directory)) as invoke:
        outcome = await invoke(name, **arguments)
    return not outcome.is_error, outcome.text


async def test_a_file_is_written_read_edited_listed_and_found(tmp_path: Path) -> None:
    """What a model does all day; directories on the way are made."""
    async with connect_ensembles(produce_io(tmp_path)) as invoke:
        written = await invoke("write_file", path="notes/today.txt", text="eins\nzwei\n")
        edited = await invoke("edit_file", path="notes/today.txt", old="zwei", new="drei")
        read = await invoke("read_file", path="notes/today.txt")
        listed = await invoke("list_files", depth=2)
        found = await invoke("search_files", text="DREI", ignore_case=True)
        named = await invoke("search_files", name="to*.txt")

    assert written.text == "notes/today.txt was created: 10 bytes."
    assert edited.text == "notes/today.txt was edited at line 2."
    assert read.text == "eins\ndrei\n"
    assert listed.text == "notes/\nnotes/today.txt  10 bytes"
    assert found.text == "notes/today.txt:2: drei"
    assert named.text == "notes/today.txt"


async def test_what_changes_files_asks_first_and_what_reads_does_not(tmp_path: Path) -> None:
    """And each says whether it may be done again: an edit may find its own result."""
    invokers = {each.name: each for each in await produce_io(tmp_path).survey()}

    assert {name: (each.needs_approval, each.effect) for name, each in invokers.items()} == {
        "read_file": (False, Effect.PURE),
        "list_files": (False, Effect.PURE),
        "search_files": (False, Effect.PURE),
        "write_file": (True, Effect.IDEMPOTENT),
        "edit_file": (True, Effect.ONCE),
    }
    assert all(str(tmp_path) in each.description for each in invokers.values())


async def test_a_part_of_a_file_is_read_by_its_lines(tmp_path: Path) -> None:
    """A note says how to go on, and a line beyond the end is told."""
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(1, 50_001)))

    assert await invoke_alone(tmp_path, "read_file", path="a", first_line=40_000, lines=2) == (
        True,
        "40000\n40001\n\n[there are more lines; continue with first_line=40002]",
    )
    assert await invoke_alone(tmp_path, "read_file", path="a", first_line=50_001) == (
        False,
        "a has only 50000 lines.",
    )


async def test_all_of_a_file_can_be_read_in_parts(tmp_path: Path) -> None:
    """Whoever follows the notes reads every line once, also where blocks and characters break."""
    text = "".join(f"{number} {'ä€😀' * (number % 97)}\n" for number in range(3_000))
    (tmp_path / "a").write_text(text, encoding="utf-8")
    parts, line = [], 1

    async with connect_ensembles(produce_io(tmp_path)) as invoke:
        while line:
            outcome = await invoke("read_file", path="a", first_line=line)
            part, _, note = outcome.text.partition("\n[")
            parts.append(part)
            line = int(note.rpartition("=")[2].rstrip("]")) if note else 0

    assert "".join(parts) == text
    assert len(parts) > 2


async def test_what_is_no_text_is_told_by_type_and_size(tmp_path: Path) -> None:
    """And text in another encoding is read as far as it goes."""
    (tmp_path / "a.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    (tmp_path / "empty").write_bytes(b"")

    answers = [await invoke_alone(tmp_path, "read_file", path=p) for p in ("a.png", "latin")]

    assert answers == [
        (False, "a.png is not text: 6 bytes, image/png."),
        (True, "caf\ufffd\n\n[bytes that are not UTF-8 are shown as \ufffd]"),
    ]
    assert await invoke_alone(tmp_path, "read_file", path="empty") == (
        True,
        "\n[the file is empty]",
    )


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("x = 1", "2 times in a.py, at the lines 1, 3. Include more"),
        ("x = 2", "The most similar line is 1: 'x = 1'."),
        ("y  = 5", "Line 2 differs in its spaces: 'y = 5'."),
        ("y = 5\nz", "Its first line is at line 2, but the next lines differ."),
        ("never mind what", "'old' is not in a.py. Read the file again."),
        ("", "'old' is empty"),
        ("new", "are equal"),
        ("aa", "2 times"),
    ],
)
async def test_an_edit_that_is_not_clear_says_what_to_do(
    tmp_path: Path, old: str, words: str
) -> None:
    """Nothing is changed then."""
    (tmp_path / "a.py").write_text("x = 1\ny = 5\nx = 1\n# aaa\n")

    is_done, text = await invoke_alone(tmp_path, "edit_file", path="a.py", old=old, new="new")

    assert (is_done, words in text) == (False, True), text
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 5\nx = 1\n# aaa\n"


@given(
    st.text(alphabet="ab\n", max_size=30),
    st.text(alphabet="ab\n", max_size=4),
    st.text(alphabet="abc\n", max_size=4),
)
def test_an_edit_replaces_what_is_there_once_and_nothing_else(
    whole: str, old: str, new: str
) -> None:
    """Where it is there never, or more than once, overlapping or not, nothing is replaced."""
    places = [start for start in range(len(whole)) if old and whole.startswith(old, start)]

    try:
        edit = replace_once(whole, old, new, "it")
    except Refusal:
        assert len(places) != 1 or old == new
        return
    assert len(places) == 1
    assert edit.text == whole.replace(old, new)
    assert edit.line == whole[: places[0]].count("\n") + 1


@given(st.binary(min_size=1, max_size=40).filter(lambda name: not {0, 47} & set(name)))
def test_every_name_is_shown_on_one_line_that_can_be_sent(name: bytes) -> None:
    """Whatever bytes a file is called by."""
    shown = show(os.fsdecode(name))

    assert shown.isprintable()
    shown.encode("utf-8")


@examples(60)
@given(
    st.lists(st.sampled_from(["", "a", "ä€", "😀" * 5, "x" * 40]), max_size=40),
    st.integers(1, 45),
    st.integers(1, 45),
    st.integers(1, 64),
    st.booleans(),
)
def test_the_lines_that_are_taken_are_the_lines_that_are_meant(
    lines: list[str], first: int, count: int, size: int, is_ended: bool
) -> None:
    """However the blocks fall in which a file is read."""
    text = "\n".join(lines) + ("\n" if is_ended and lines else "")
    data = text.encode()
    extractor = LineExtractor(first, count)
    for start in range(0, len(data), size):
        if extractor.feed(data[start : start + size]):
            break

    wanted = text.splitlines(keepends=True)[first - 1 : first - 1 + count]

    assert bytes(extractor.data).decode() == "".join(wanted)
    assert extractor.has_more == (len(text.splitlines()) > first - 1 + count)


async def test_an_edit_keeps_the_ends_of_lines(tmp_path: Path) -> None:
    """A file of Windows stays one, though the model writes other ends."""
    (tmp_path / "a").write_bytes(b"1\r\n2\r\n3\r\n")

    is_done, _ = await invoke_alone(tmp_path, "edit_file", path="a", old="1\n2", new="1\n5\n2")

    assert (is_done, (tmp_path / "a").read_bytes()) == (True, b"1\r\n5\r\n2\r\n3\r\n")


async def test_edits_at_once_are_both_there(tmp_path: Path) -> None:
    """One does not undo another that runs beside it."""
    words = [f"word{number}." for number in range(20)]
    (tmp_path / "a").write_text("".join(words))
    async with connect_ensembles(produce_io(tmp_path)) as invoke:
        edits = [invoke("edit_file", path="a", old=word, new=word.upper()) for word in words]
        outcomes = await asyncio.gather(*edits)

    assert [outcome.text for outcome in outcomes if outcome.is_error] == []
    assert (tmp_path / "a").read_text() == "".join(words).upper()


async def test_a_file_keeps_its_permissions_but_not_another_s_identity(tmp_path: Path) -> None:
    """A script stays executable; one that acts as its owner does not go on to do so."""
    (tmp_path / "run").write_text("x")
    (tmp_path / "run").chmod(0o4750)

    await invoke_alone(tmp_path, "write_file", path="run", text="y")

    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o750


async def test_another_name_of_the_same_file_elsewhere_is_not_written(tmp_path: Path) -> None:
    """A hard link leads out of a directory unseen; writing makes a new file in its place."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.write_text("before")
    (inside / "a").hardlink_to(outside)

    await invoke_alone(inside, "write_file", path="a", text="after")

    assert ((inside / "a").read_text(), outside.read_text()) == ("after", "before")


def walk_to_replace(directory: Path, change: bool, cancelled: bool) -> None:
    """Replaces a file that somebody else changes before, or that nobody waits for any more."""
    grants = Grants("io", [DirectoryGrant(directory, True, directory)])
    grants.open()
    context = InvocationContext()
    try:
        with grants.walk("a") as place:
            before = place.inspect()
            if change:
                (directory / "a").write_text("by somebody else")
            if cancelled:
                context.cancel()
            replace_file(place, b"after", before, context)
    finally:
        grants.close()


@pytest.mark.parametrize("what", ["change", "cancelled"])
def test_a_write_that_comes_too_late_writes_nothing(tmp_path: Path, what: str) -> None:
    """Neither over what somebody else wrote, nor after a time limit; and leaves no draft."""
    (tmp_path / "a").write_text("before")

    with pytest.raises(Refusal):
        walk_to_replace(tmp_path, what == "change", what == "cancelled")

    assert (tmp_path / "a").read_text() == ("by somebody else" if what == "change" else "before")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


async def test_a_write_that_fails_leaves_the_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is told, what was there stays, and no draft is left."""
    (tmp_path / "a").write_text("before")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    is_done, text = await invoke_alone(tmp_path, "write_file", path="a", text="after")

    assert (is_done, text) == (False, "Cannot write a: No space left on device.")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "before")]


async def test_a_listing_of_a_large_directory_is_bounded(tmp_path: Path) -> None:
    """It is told how much is shown."""
    for number in range(LISTED_LIMIT + 1):
        (tmp_path / f"{number:05}").touch()

    _, text = await invoke_alone(tmp_path, "list_files")

    lines = text.splitlines()
    assert lines[-1] == f"[only the first {LISTED_LIMIT} entries are listed]"
    assert len(lines) == LISTED_LIMIT + 1


async def test_no_more_entries_are_read_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a directory without an end, the rest is never asked for."""
    given = 0

    def give() -> Iterator[Any]:
        nonlocal given
        while True:
            given += 1
            yield SimpleNamespace(name=f"absent{given}")

    @contextmanager
    def scan(descriptor: int) -> Iterator[Any]:
        yield give()

    monkeypatch.setattr(directory_listing, "ENTRIES_LIMIT", 100)
    monkeypatch.setattr("os.scandir", scan)
    is_done, text = await invoke_alone(tmp_path, "search_files", name="x")

    assert is_done
    assert text == "[nothing found]\n[more than 100 entries: the rest is not listed]"
    assert given == 101


async def test_a_search_is_bounded_in_what_it_shows(tmp_path: Path) -> None:
    """However many lines match, and however long they are; what is around a match is shown."""
    (tmp_path / "a").write_text(("x" * 5_000 + "needle" + "y" * 5_000 + "\n") * 500)
    (tmp_path / "b.bin").write_bytes(b"\0needle\n")

    _, text = await invoke_alone(tmp_path, "search_files", text="needle")

    lines = text.splitlines()
    assert lines[-1] == "[only the first 200 are shown; search for something more specific]"
    assert len(lines) == 201
    assert all("needle" in line and len(line) < 400 for line in lines[:-1])


async def test_a_file_that_is_too_large_is_not_held(tmp_path: Path) -> None:
    """It is neither searched nor edited nor written; reading its beginning costs the beginning."""
    with (tmp_path / "large").open("wb") as file:
        file.write(b"first\n")
        file.truncate(1_000_000_000_000)  # without occupying the disk
    ensemble = produce_io(tmp_path, file_bytes=1_000)

    async with connect_ensembles(ensemble) as invoke:
        searched = await invoke("search_files", text="first")
        edited = await invoke("edit_file", path="large", old="first", new="last")
        written = await invoke("write_file", path="new", text="x" * 1_001)

    assert searched.text == "[nothing found]\n[files larger than 1000 bytes were skipped]"
    assert edited.text == "large is larger than the limit of 1000 bytes."
    assert written.text == "The text has 1001 bytes; the limit is 1000."


async def test_a_line_without_an_end_is_cut(tmp_path: Path) -> None:
    """Of a file with one line of gigabytes the beginning is shown, and no more is read."""
    with (tmp_path / "a").open("wb") as file:
        file.write(b"x" * 2_000_000)

    is_done, text = await invoke_alone(tmp_path, "read_file", path="a")

    assert is_done
    assert len(text) < TEXT_CHARACTERS + 100
    assert text.endswith(f"[line 1 is longer than {TEXT_CHARACTERS} characters: cut]")


async def test_names_that_are_no_text_are_shown_in_other_words(tmp_path: Path) -> None:
    """Bytes that are not UTF-8, ends of lines and reversed writing stay on their line."""
    for name in (b"caf\xe9", b"two\nlines", "\u202etxt.exe".encode()):
        (tmp_path / os.fsdecode(name)).write_text("needle")

    _, text = await invoke_alone(tmp_path, "list_files")
    _, found = await invoke_alone(tmp_path, "search_files", text="needle")

    assert text.splitlines() == [
        "caf\\xe9  6 bytes",
        '"two\\nlines"  6 bytes',
        '"\\u202etxt.exe"  6 bytes',
    ]
    assert found.splitlines()[1] == '"two\\nlines":1: needle'
    text.encode(), found.encode()


def test_a_newer_read_makes_older_ones_of_the_file_stale() -> None:
    """However the path is spelled; a part of a file is a thing of its own."""
    deduplicator = ByFile()
    whole = deduplicator.identify("read_file", {"path": "a/b"})

    assert whole == deduplicator.identify("write_file", {"path": "./a//b", "text": "x"})
    assert whole != deduplicator.identify("read_file", {"path": "/a/b"})
    parts = {
        deduplicator.identify("read_file", {"path": "a/b", "first_line": first})
        for first in (1, 2_001)
    }
    assert len(parts | {whole}) == 3
    assert deduplicator.identify("read_file", {"path": 5}) is None


@pytest.mark.parametrize(
    ("given_settings", "place", "words"),
    [
        ({"directories": "."}, "directories", "It must be a list of texts"),
        ({"directories": [""]}, "directories", "It must be a list of texts"),
        ({"directories": ["a\0b"]}, "directories", "It must be a list of texts"),
        ({"file_bytes": 0}, "file_bytes", "It must be a whole number of at least 1, not 0."),
        ({"file_bytes": True}, "file_bytes", "It must be a whole number"),
        ({"directorys": []}, "directorys", "Unknown setting; did you mean 'directories'?"),
        ({"directories": []}, "", "No directory is granted"),
        ({"directories": ["/"]}, "directories", "'/' is the whole machine"),
        ({"read_only": ["/proc/self"]}, "read_only", "cannot be granted"),
        ({"directories": ["~"], "read_only": ["/dev"]}, "read_only", "cannot be granted"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(
    tmp_path: Path, given_settings: dict[str, Any], place: str, words: str
) -> None:
    """And with what is right there, when the ensemble is made."""
    with pytest.raises(ConfigurationError) as caught:
        survey_ensembles()[0].factory(produce_ensemble_context("files", tmp_path, **given_settings))

    assert f"{'.'.join(['ensembles.files', *([place] if place else [])])}:" in str(caught.value)
    assert words in str(caught.value)


def test_the_home_directory_is_granted_to_those_alone_who_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keys are not to be read because a chat was begun there."""
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(ConfigurationError, match="is your home directory"):
        survey_ensembles()[0].factory(produce_ensemble_context("io", tmp_path))
    said = survey_ensembles()[0].factory(
        produce_ensemble_context("io", tmp_path, directories=["~"])
    )
    assert said.name == "io"


async def test_a_directory_that_is_not_there_is_an_error_of_connecting(tmp_path: Path) -> None:
    """And whatever had been opened before it is closed."""
    before = len(list(Path("/dev/fd").iterdir()))
    ensemble = produce_io(tmp_path, directories=(".", "absent"))

    with pytest.raises(EnsembleError, match=r"Cannot open .*absent.*: No such file"):
        await ensemble.connect()

    assert len(list(Path("/dev/fd").iterdir())) == before


def test_the_plugin_names_the_ensemble() -> None:
    """It can be configured several times, under any name."""
    assert [each.name for each in survey_ensembles()] == ["*"]
