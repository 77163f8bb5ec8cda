"""Folders, pipes and devices where files should be: one line each, and no waiting."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.lookup import find_newest
from vibe_llms.exceptions import ConfigurationError, StoreError
from vibe_llms.models.folders import read_names
from vibe_llms.wire.http.tls import produce_tls_context

Vibe = Callable[..., Any]


@pytest.fixture
def folder(vibe: Vibe) -> Path:
    """The folder of the only conversation."""
    from vibe_llms.interfaces.cli.access import open_store

    vibe("ask", "-m", "scripted:echo", "hello")
    store = open_store()
    assert isinstance(store, DirectoryStore)
    return Path(store.locate(next(store.survey())))


def replace(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


def check_line(outcome: Any) -> None:
    """Holds an outcome to one line that names no defect."""
    assert outcome.code != 0
    assert "defect" not in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    "name", ["messages.jsonl", "metadata.toml", "messages.tally", "runs.jsonl", "runs.tally"]
)
def test_a_store_with_odd_files_is_told(vibe: Vibe, folder: Path, name: str, kind: str) -> None:
    """Nothing hangs or fills the memory, and the rest can be seen."""
    replace(folder / name, kind)

    shown, proven, listed, found, collected = (
        vibe(*words) for words in (("show",), ("verify",), ("list",), ("search", "x"), ("gc",))
    )

    assert listed.code == found.code == 0
    assert "defect" not in shown.err + proven.err + collected.err
    if name in ("messages.jsonl", "metadata.toml"):
        check_line(shown)
    if not name.endswith("tally"):
        assert (proven.code, "pipe or a device" in proven.out) == (7, True)


@pytest.mark.parametrize("level", [0, 1], ids=["shard", "all"])
@pytest.mark.parametrize("words", [("list",), ("chat", "--continue"), ("search", "x"), ("verify",)])
def test_a_folder_that_cannot_be_read_is_no_empty_one(
    vibe: Vibe, folder: Path, words: tuple[str, ...], level: int
) -> None:
    """A file in its place is an error, and not that there is no conversation yet."""
    replaced = folder.parents[level]
    replaced.rename(folder.parents[2] / "away")
    replaced.write_text("x")

    outcome = vibe(*words)

    check_line(outcome)
    assert "A file is where a folder should be" in outcome.err


def test_too_many_open_files_are_told_with_what_helps(
    vibe: Vibe, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's limit, and the command that raises it."""
    original = os.open

    def refuse(path: Any, *rest: Any, **options: Any) -> int:
        if "conversations" in str(path):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return original(path, *rest, **options)

    monkeypatch.setattr(os, "open", refuse)

    outcome = vibe("show", folder.name)

    check_line(outcome)
    assert "ulimit -n" in outcome.err


def test_conversations_that_cannot_be_read_are_not_none(folder: Path) -> None:
    """Where none of those that are there can be read, the newest is an error."""
    store = DirectoryStore(folder.parents[2])
    (folder / "metadata.toml").write_text("?")

    with pytest.raises(StoreError, match="Cannot read"):
        find_newest(store)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    "words",
    [
        ("ask", "-m", "scripted:echo", "-f", "FILE", "hi"),
        ("ask", "-m", "scripted:echo", "--schema", "FILE", "hi"),
        ("ask", "-m", "scripted:FILE.toml", "hi"),
        ("batch", "FILE", "-o", "out", "-m", "scripted:echo"),
        ("import", "FILE"),
    ],
)
def test_odd_files_that_are_named_are_told(
    vibe: Vibe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], kind: str
) -> None:
    """On one line, at once."""
    monkeypatch.chdir(tmp_path)
    for name in ("FILE", "FILE.toml"):
        replace(tmp_path / name, kind)

    check_line(vibe(*words))


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_an_odd_configuration_is_told(
    vibe: Vibe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As any that cannot be read."""
    replace(tmp_path / "odd.toml", kind)
    monkeypatch.setenv("VIBE_LLMS_CONFIG", str(tmp_path / "odd.toml"))

    check_line(vibe("list"))


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("words", [("set", "stream", "false"), ("unset", "stream")])
def test_an_odd_configuration_is_not_changed(
    vibe: Vibe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], kind: str
) -> None:
    """It is told, and nothing takes its place."""
    odd = tmp_path / "odd.toml"
    replace(odd, kind)
    monkeypatch.setenv("VIBE_LLMS_CONFIG", str(odd))

    outcome = vibe("config", *words)

    check_line(outcome)
    assert "a pipe or a device" in outcome.err
    assert not odd.is_file()


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_an_odd_package_is_told(vibe: Vibe, tmp_path: Path, kind: str) -> None:
    """Before anybody is asked about it."""
    replace(tmp_path / "pyproject.toml", kind)

    check_line(vibe("plugins", "add", "--yes", f"{tmp_path}/"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("role", ["authorities", "certificate", "key"])
def test_odd_certificates_are_told(tmp_path: Path, role: str, kind: str) -> None:
    """OpenSSL would read them without end, and cannot be interrupted."""
    replace(tmp_path / "odd.pem", kind)
    (tmp_path / "some.pem").write_text("")
    paths = {"authorities": None, "certificate": tmp_path / "some.pem", "key": None}

    with pytest.raises(ConfigurationError, match="a pipe or a device"):
        produce_tls_context(**(paths | {role: tmp_path / "odd.pem"}))


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_odd_facts_about_models_are_passed_over(tmp_path: Path, kind: str) -> None:
    """Where names alone are wanted, for the completion of a command line."""
    replace(tmp_path / "attributes.toml", kind)

    assert read_names(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/", "vibe: error: Cannot write /: Is a directory. Name a file."),
        ("pipe", "Cannot write pipe: The pipe has no reader. Start the process"),
        ("/dev/full", "Cannot write /dev/full: No space left on device. Free space"),
        ("none/it.md", "Cannot write none/it.md: No such file or directory. Check the path"),
    ],
)
def test_an_export_that_cannot_be_written_is_told(
    vibe: Vibe, home: Path, folder: Path, name: str, words: str
) -> None:
    """One line that says where, why and what to do; nobody waits for a pipe's reader."""
    os.mkfifo(home / "pipe")

    outcome = vibe("export", "-o", name)

    check_line(outcome)
    assert words in outcome.err
    assert outcome.code == 7


@pytest.mark.parametrize(
    "words",
    [
        ("export", "-o", "it.md"),
        ("config", "set", "stream", "false"),
        ("trust", "project", "--yes"),
    ],
)
def test_a_full_disk_leaves_files_as_they_were(
    vibe: Vibe, home: Path, folder: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the file and the remedy; what was there is there."""
    (home / "it.md").write_text("old")
    project = home / "project" / ".vibe-llms"
    project.mkdir(parents=True)
    (project / "config.toml").write_text("[directories]\ndata = 'x'\n")
    vibe("list")  # which makes the index
    before = {path for path in home.rglob("*") if path.is_file()}

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        outcome = vibe(*words)

    check_line(outcome)
    assert "No space left on device. Free space on that disk" in outcome.err
    assert str(home) in outcome.err or "it.md" in outcome.err
    assert {path for path in home.rglob("*") if path.is_file()} == before
    assert (home / "it.md").read_text() == "old"
