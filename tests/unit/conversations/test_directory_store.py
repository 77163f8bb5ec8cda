"""What lies in the files of a directory store, and what happens when they are damaged."""

from __future__ import annotations

import builtins
import errno
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import datetime
from io import FileIO
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import attrs
import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from strategies import messages
from support.quality.properties import examples
from support.stores.disks import HastyDisk
from vibe_llms.conversations import DirectoryStore, verify
from vibe_llms.conversations.canister_media import hydrate, replace_media
from vibe_llms.conversations.lookup import find_newest
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.proof import collect_content, plan_collection
from vibe_llms.conversations.stores import open_files
from vibe_llms.exceptions import CorruptionError, StoreError
from vibe_llms.foundation.files import open_handle
from vibe_llms.logs.lines import measure_lines
from vibe_llms.messages.canisters import AnyCanister, UserCanister
from vibe_llms.messages.contents import ImageContent, MediaContent, compute_content_id
from vibe_llms.messages.views import text_of


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    store.create("a", ConversationMetadata(name="Ä", tags=("t",)))
    store.append("a", [UserCanister("0"), UserCanister("1"), UserCanister("2")])
    return store


def messages_of(store: DirectoryStore, identity: str) -> Path:
    return Path(store.layout.messages(identity))


def test_000_a_conversation_lies_in_two_files(store: DirectoryStore) -> None:
    """One canister a line, and a TOML file that people can read."""
    store.fork("a", child="b")

    lines = messages_of(store, "a").read_text().splitlines()
    metadata = tomli.loads(Path(store.layout.metadata("a")).read_text())
    fork = tomli.loads(Path(store.layout.metadata("b")).read_text())

    assert [json.loads(line)["content"][0]["text"] for line in lines] == ["0", "1", "2"]
    assert metadata["format"] == 1
    assert metadata["conversation"]["name"] == "Ä"
    assert metadata["conversation"]["tags"] == ["t"]
    assert isinstance(metadata["conversation"]["created"], datetime)
    assert fork["parent"] == {"id": "a", "bytes": messages_of(store, "a").stat().st_size}
    assert messages_of(store, "b").read_bytes() == b""


def test_001_content_lies_under_its_hash(store: DirectoryStore, tmp_path: Path) -> None:
    """Bytes as they are, beside a TOML file that says what they are."""
    content_id = store.contents.add(b"picture", mime_type="image/png", name="p.png")

    folder = tmp_path / "content" / content_id[:4] / content_id

    assert (folder / "data").read_bytes() == b"picture"
    about = tomli.loads((folder / "metadata.toml").read_text())["content"]
    assert isinstance(about.pop("created"), datetime)
    assert about == {
        "id": compute_content_id(b"picture"),
        "mime_type": "image/png",
        "size_bytes": 7,
        "hash_algorithm": "sha256",
        "name": "p.png",
    }


def test_002_nobody_else_can_read_what_was_said(store: DirectoryStore) -> None:
    """Conversations are private to the user."""
    assert messages_of(store, "a").stat().st_mode & 0o077 == 0
    assert Path(store.layout.root).stat().st_mode & 0o077 == 0


def test_003_saying_something_does_not_rewrite_the_metadata(store: DirectoryStore) -> None:
    """An append touches the messages only."""
    before = Path(store.layout.metadata("a")).stat()

    store.append("a", [UserCanister("3")])

    after = Path(store.layout.metadata("a")).stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_004_words_of_a_later_version_survive_a_rename(store: DirectoryStore) -> None:
    """What this version does not understand it keeps."""
    path = Path(store.layout.metadata("a"))
    path.write_text(path.read_text() + 'mood = "fine"\n[later]\nx = 1\n')

    store.update_metadata("a", name="new")
    store.fork("a", child="b")
    store.delete("a")

    metadata = tomli.loads(path.read_text()) if path.exists() else {}
    assert metadata == {}
    path = Path(store.layout.metadata("b"))
    path.write_text(path.read_text() + "[later]\nx = 1\n")
    store.update_metadata("b", tags=["u"])
    assert tomli.loads(path.read_text())["later"] == {"x": 1}


def test_005_a_later_format_is_refused(store: DirectoryStore) -> None:
    """A store of a later format is not guessed at."""
    path = Path(store.layout.metadata("a"))
    path.write_text(path.read_text().replace("format = 1", "format = 2"))

    with pytest.raises(StoreError, match="Upgrade"):
        store.read("a")


@pytest.mark.parametrize("text", ["", "format = 1", "not toml", "format = 1\nconversation = 3\n"])
def test_006_metadata_that_do_not_read_are_reported(store: DirectoryStore, text: str) -> None:
    """Damaged metadata are named by their file, and do not hide other conversations."""
    Path(store.layout.metadata("a")).write_text(text)
    store.create("b", ConversationMetadata())

    with pytest.raises(CorruptionError, match=r"a/metadata\.toml"):
        store.read("a")
    assert len(verify(store).findings) == 1


def test_010_a_damaged_line_is_named(store: DirectoryStore) -> None:
    """Reading says file and line; reading tolerantly shows the rest; nothing is changed."""
    path = messages_of(store, "a")
    lines = path.read_bytes().split(b"\n")
    damaged = b"\n".join([lines[0], b'{"role": "usher"}', *lines[2:]])
    path.write_bytes(damaged)
    store.fork("a", child="b")

    for identity in ("a", "b"):
        with pytest.raises(CorruptionError) as caught:
            store.read(identity)
        assert (caught.value.path, caught.value.line) == (str(path), 2)
        assert f"{path}:2:" in str(caught.value)

        history = store.read(identity, tolerant=True)
        assert [text_of(canister) for canister in history.canisters] == ["0", "2"]
        assert [(each.place, each.line) for each in history.notices] == [(str(path), 2)]
    assert [(each.place, each.line) for each in verify(store).findings] == [(str(path), 2)]
    assert path.read_bytes() == damaged


def test_011_going_on_after_damage_is_possible(store: DirectoryStore) -> None:
    """An append does not read the history, and so is not hindered by it."""
    path = messages_of(store, "a")
    path.write_bytes(path.read_bytes().replace(b'"user"', b'"xser"', 1))

    store.append("a", [UserCanister("3")])

    assert text_of(store.read("a", tolerant=True).canisters[-1]) == "3"


def test_012_an_empty_line_is_damage(store: DirectoryStore) -> None:
    """Fork points count lines: one that is no canister is named, and not passed over."""
    path = messages_of(store, "a")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n", 1))

    with pytest.raises(CorruptionError, match=":2:"):
        store.read("a")
    tolerant = store.read("a", tolerant=True)
    assert [text_of(canister) for canister in tolerant.canisters] == ["0", "1", "2"]
    assert [each.line for each in verify(store).findings] == [2]


@given(rest=st.binary(min_size=1, max_size=200).filter(lambda rest: b"\n" not in rest))
def test_020_any_torn_end_is_set_aside(rest: bytes) -> None:
    """Whatever bytes a crash has left of a line, they are kept beside, in full."""
    with tempfile.TemporaryDirectory() as folder:
        store = DirectoryStore(folder, disk=HastyDisk())
        store.create("a", ConversationMetadata())
        store.append("a", [UserCanister("0")])
        path = messages_of(store, "a")
        path.write_bytes(path.read_bytes() + rest)

        assert "is still there" in str(store.read("a", tolerant=True).notices[0])
        assert "is still there" in str(verify(store).findings[0])
        receipt = store.append("a", [UserCanister("1")])

        assert len(receipt.notices) == 1
        assert path.with_name("messages.torn-1").read_bytes() == rest
        assert [text_of(canister) for canister in store.read("a").canisters] == ["0", "1"]
        assert verify(store).findings == ()


def test_021_a_very_long_torn_line_is_found_from_its_end(store: DirectoryStore) -> None:
    """The beginning of a torn line is found however long it is, even where it is all there is."""
    path = messages_of(store, "a")
    whole = path.read_bytes()
    path.write_bytes(whole + b"x" * 200_000)
    store.append("a", [])
    assert path.read_bytes() == whole

    path.write_bytes(b"y" * 200_000)
    assert store.read("a").canisters == ()
    assert path.with_name("messages.torn-2").stat().st_size == 200_000


@pytest.mark.slow
def test_021_what_was_appended_together_is_there_together_or_not_at_all(
    store: DirectoryStore,
) -> None:
    """Wherever a crash cuts an append of several, none of them is taken for a whole answer."""
    path = messages_of(store, "a")
    before, tally = path.read_bytes(), path.with_name("messages.tally").read_bytes()
    store.append("a", [UserCanister(text) for text in ("3", "4", "5")])
    whole = path.read_bytes()
    path.with_name("messages.tally").write_bytes(tally)  # as the crash had left it

    for size in range(len(before) + 1, len(whole)):
        path.write_bytes(whole[:size])
        history = store.read("a")
        assert [text_of(canister) for canister in history.canisters] == ["0", "1", "2"]
        assert len(history.notices) == 1
        assert path.read_bytes() == before
        aside = path.with_name("messages.torn-1")
        assert before + aside.read_bytes() == whole[:size]
        aside.unlink()
    path.write_bytes(whole)
    assert len(store.read("a").canisters) == 6
    assert store.read("a").notices == ()
    path.write_bytes(whole[: whole.index(b"\n") + 1])
    assert store.read("a").canisters == ()
    assert path.read_bytes() == b""


def test_021_a_fork_point_within_an_append_is_an_end_of_its_own(store: DirectoryStore) -> None:
    """A fork of the first of several keeps it when its parent goes."""
    store.fork("a", from_index=1, child="b")
    store.fork("a", from_index=2, child="c")
    store.append("c", [UserCanister("own"), UserCanister("more")])

    store.delete("a")

    assert [text_of(canister) for canister in store.read("b").canisters] == ["0"]
    texts = [text_of(canister) for canister in store.read("c").canisters]
    assert texts == ["0", "1", "own", "more"]
    assert store.read("b").notices == store.read("c").notices == ()
    assert verify(store).findings == ()


def test_022_a_parents_torn_end_does_not_reach_its_forks(store: DirectoryStore) -> None:
    """A fork at the end is a fork at the end of the last whole line."""
    path = messages_of(store, "a")
    path.write_bytes(path.read_bytes() + b"torn")

    store.fork("a", child="b")
    store.append("a", [UserCanister("3")])

    assert [text_of(canister) for canister in store.read("b").canisters] == ["0", "1", "2"]


def test_023_a_torn_end_that_cannot_be_set_aside_keeps_nobody_from_reading(
    store: DirectoryStore,
) -> None:
    """Where the disk is full the torn line stays where it is, and is reported."""

    class FullDisk(HastyDisk):
        def create(self, path: str) -> FileIO:
            raise OSError(28, "No space left on device")

    path = messages_of(store, "a")
    path.write_bytes(path.read_bytes() + b"torn")

    history = DirectoryStore(path.parents[3], disk=FullDisk()).read("a")

    assert [text_of(canister) for canister in history.canisters] == ["0", "1", "2"]
    assert "is still there" in str(history.notices[0])


def test_024_what_may_not_be_written_can_be_read(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store on a read-only disk, such as a backup, can be read and proven."""
    store.fork("a", child="b")
    path = messages_of(store, "a")
    path.write_bytes(path.read_bytes() + b"torn")
    original = os.open

    def refuse_to_write(path: str, flags: int, *args: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system", path)
        return original(path, flags, *args)

    monkeypatch.setattr(os, "open", refuse_to_write)

    for identity in ("a", "b"):
        history = store.read(identity)
        assert [text_of(canister) for canister in history.canisters] == ["0", "1", "2"]
    assert len(verify(store).findings) == 1
    assert plan_collection(store).content_ids == ()
    with pytest.raises(StoreError, match="Read-only"):
        store.append("a", [])


def test_030_lost_messages_are_an_error(store: DirectoryStore) -> None:
    """A file that vanished is not taken for an empty conversation."""
    messages_of(store, "a").unlink()

    for attempt in (lambda: store.read("a"), lambda: store.append("a", [])):
        with pytest.raises(CorruptionError, match="missing"):
            attempt()


def test_031_a_lost_parent_is_an_error(store: DirectoryStore) -> None:
    """A fork says which parent it lacks; what it has stored itself can be read."""
    store.fork("a", child="b")
    store.append("b", [UserCanister("own")])
    for file in Path(store.layout.folder("a")).iterdir():
        file.unlink()
    Path(store.layout.folder("a")).rmdir()

    with pytest.raises(CorruptionError, match="parent a is missing"):
        store.read("b")
    assert [text_of(each) for each in store.read("b", tolerant=True).canisters] == ["own"]


def test_032_forks_in_a_circle_are_an_error(store: DirectoryStore) -> None:
    """Links that lead back to where they began are found, not followed for ever."""
    store.fork("a", child="b")
    path = Path(store.layout.metadata("a"))
    path.write_text(path.read_text() + '[parent]\nid = "b"\ncanisters = 1\n')

    with pytest.raises(CorruptionError, match="its own descendant"):
        store.read("a")


@pytest.mark.parametrize(
    ("line", "table"),
    [
        ("name = 5", ""),
        ("tags = [1]", ""),
        ("tags = [[1]]", ""),
        ("model = ['m']", ""),
        ("", "parent = 1"),
        ("", "parent = {id = 5, canisters = 1}"),
        ("", "parent = {id = '../../a', canisters = 1}"),
        ("", "parent = {id = 'a', canisters = 1.0}"),
        ("", "parent = {id = 'a', canisters = 'x'}"),
        ("", "parent = {id = 'a', bytes = 99999999999999999999}"),
        ("deep = " + "[" * 100_000, ""),
    ],
)
def test_033_metadata_that_make_no_sense_are_an_error(
    store: DirectoryStore, line: str, table: str
) -> None:
    """Whatever stands in the file, it is named, and others are not disturbed."""
    store.create("b", ConversationMetadata())
    path = Path(store.layout.metadata("b"))
    path.write_text(table + "\n" + path.read_text() + line + "\n")

    for attempt in (store.read, store.read_metadata, store.fork):
        with pytest.raises(CorruptionError, match=re.escape(str(path))):
            attempt("b")
    assert [each.place for each in verify(store).findings] == [str(path)]
    assert find_newest(store) == "a"


def test_040_changed_content_is_found(store: DirectoryStore, tmp_path: Path) -> None:
    """One changed bit of a picture is found, when it is read and when the store is proven."""
    store.append("a", [UserCanister([ImageContent(mime_type="image/png", data=b"picture")])])
    content_id = compute_content_id(b"picture")
    path = tmp_path / "content" / content_id[:4] / content_id / "data"
    path.write_bytes(b"pidture")

    with pytest.raises(CorruptionError, match="content"):
        store.contents.read(content_id)
    assert [finding.place for finding in verify(store).findings] == [str(path)]


def test_041_content_cut_short_is_mended_by_adding_it_again(
    store: DirectoryStore, tmp_path: Path
) -> None:
    """Who brings the same bytes again puts whole ones in the place of damaged ones."""
    content_id = store.contents.add(b"picture", mime_type="image/png")
    (tmp_path / "content" / content_id[:4] / content_id / "data").write_bytes(b"pic")

    store.contents.add(b"picture", mime_type="image/png")

    assert store.contents.read(content_id) == b"picture"


def test_042_a_reference_in_a_damaged_line_keeps_its_content(store: DirectoryStore) -> None:
    """What cannot be read may still be mended: its content is not collected."""
    store.append("a", [UserCanister([ImageContent(mime_type="image/png", data=b"picture")])])
    path = messages_of(store, "a")
    path.write_bytes(path.read_bytes().replace(b'"user"', b'"xser"')[:-3])
    store.append("a", [])  # and what is set aside counts as well

    plan = plan_collection(store, grace_seconds=0)

    assert path.with_name("messages.torn-1").exists()
    assert collect_content(store, plan, grace_seconds=0).content_ids == ()


def test_043_damaged_content_that_nobody_needs_can_go(
    store: DirectoryStore, tmp_path: Path
) -> None:
    """Content without its data or its metadata is collected like any other."""
    ids = [store.contents.add(data, mime_type="text/plain") for data in (b"x", b"y")]
    (tmp_path / "content" / ids[0][:4] / ids[0] / "data").unlink()
    (tmp_path / "content" / ids[1][:4] / ids[1] / "metadata.toml").unlink()

    plan = plan_collection(store, grace_seconds=0)
    collect_content(store, plan, grace_seconds=0)

    assert set(plan.content_ids) == set(ids)
    assert list(store.contents.survey()) == []


def test_044_what_a_crash_left_half_added_is_swept_away(
    store: DirectoryStore, tmp_path: Path
) -> None:
    """A collection also removes unfinished folders, and nothing that is not ours."""
    content_id = store.contents.add(b"x", mime_type="text/plain")
    shelf = tmp_path / "content" / content_id[:4]
    half = shelf / f".{content_id}.0123abcd"
    half.mkdir()
    (half / "data").write_bytes(b"hal")
    (shelf / ".DS_Store").write_bytes(b"theirs")

    collect_content(store, plan_collection(store))

    assert sorted(path.name for path in shelf.iterdir()) == [".DS_Store", content_id]


def test_045_files_of_others_do_no_harm(store: DirectoryStore, tmp_path: Path) -> None:
    """What a desktop or a person puts beside conversations hinders nothing; a proof names it."""
    (tmp_path / "conversations" / "notes").write_text("mine")
    (tmp_path / "conversations" / "Desktop.ini").write_text("theirs")
    store.contents.add(b"x", mime_type="text/plain")
    (tmp_path / "content" / "notes").write_text("mine")

    assert find_newest(store) == "a"
    assert len(plan_collection(store, grace_seconds=0).content_ids) == 1
    assert ["notes" in str(finding) for finding in verify(store).findings] == [True]
    store.fork("a", child="b")
    store.delete("a")
    assert len(store.read("b").canisters) == 3


def test_046_content_of_a_folder_that_somebody_renamed_is_kept(store: DirectoryStore) -> None:
    """A conversation put aside by hand, under a name that no store reads, can be put back whole."""
    store.append("a", [UserCanister([ImageContent(mime_type="image/png", data=b"picture")])])
    folder = Path(store.layout.folder("a"))
    folder.rename(folder.with_name("a (old)"))

    assert plan_collection(store, grace_seconds=0).content_ids == ()


def test_047_content_that_is_added_again_is_young_again(store: DirectoryStore) -> None:
    """A program that adds what was there already has as long to speak of it as any other."""
    content_id = store.contents.add(b"picture", mime_type="image/png")
    path = Path(store.contents.root, content_id[:4], content_id, "data")
    os.utime(path, (0, 0))
    assert plan_collection(store).content_ids == (content_id,)

    store.contents.add(b"picture", mime_type="image/png")

    assert plan_collection(store).content_ids == ()


def test_050_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    """What the operating system refuses arrives as a StoreError with the path and a remedy."""
    (tmp_path / "conversations").write_text("not a folder")

    with pytest.raises(StoreError, match="conversations") as caught:
        DirectoryStore(tmp_path).create("a", ConversationMetadata())

    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.remedy


def test_051_a_name_that_is_no_text_is_refused(store: DirectoryStore) -> None:
    """Half a character cannot be written down; the old name stays."""
    with pytest.raises(StoreError, match="Unicode"):
        store.update_metadata("a", name="\ud800")

    assert store.read_metadata("a").name == "Ä"


def test_052_surveying_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    """To look into an empty store leaves no trace."""
    store = DirectoryStore(tmp_path / "nothing")

    assert list(store.survey()) == []
    assert list(store.contents.survey()) == []
    with pytest.raises(StoreError):
        store.read_metadata("a")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.slow
@examples(40)
@given(said=messages.conversations, index=st.integers(0, 5))
def test_053_whatever_can_be_said_can_be_kept(said: list[AnyCanister], index: int) -> None:
    """Every kind of canister and content survives, in a fork and after its parent is gone."""
    canisters = [replace_media(canister, give_bytes) for canister in said]
    expected = tuple(replace_media(canister, take_bytes) for canister in canisters)
    with tempfile.TemporaryDirectory() as folder:
        store = DirectoryStore(folder, disk=HastyDisk())
        store.create("a", ConversationMetadata())
        store.append("a", canisters[:index])
        store.fork("a", child="b")
        store.append("b", canisters[index:])
        assert store.read("b").canisters == expected
        assert hydrate(store.read("b").canisters, store.contents) == tuple(canisters)

        store.delete("a")

        assert store.read("b").canisters == expected
        assert verify(store).findings == ()


def give_bytes(content: MediaContent) -> MediaContent:
    """A message may not name content that no store has."""
    if content.data is None and content.url is None and content.file_id is None:
        return attrs.evolve(content, data=b"bytes", content_id=None)
    return content


def take_bytes(content: MediaContent) -> MediaContent:
    return attrs.evolve(content, data=None)


@given(texts=st.lists(st.integers(0, 200_000), max_size=12), count=st.integers(0, 14))
def test_060_lines_are_measured_as_if_one_by_one(texts: list[int], count: int) -> None:
    """Counting in blocks finds the same line ends as splitting does."""
    lines = [b"x" * size + b"\n" for size in texts]

    measured = measure_lines(b"".join(lines), count)

    assert measured == (sum(map(len, lines[:count])) if count <= len(lines) else None)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems are asked more")
@pytest.mark.parametrize("again", [False, True], ids=["opened", "open"])
def test_065_an_append_asks_the_system_little(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """No other process has written since: neither the end of the file nor its tally is read again.

    Files of the conversations appended to last are still open.
    """
    monkeypatch.setattr(open_files, "SETTLED_NS", 0)
    time.sleep(0.02)  # longer than the times of files are apart
    position = store.append("a", [UserCanister("3")]).position
    position = store.append("a", [UserCanister("4")], after=position).position
    if not again:
        store.guards.logs.drop("a")
    canister = UserCanister("5")  # here, as every few dozen ids the system is asked for chance
    asked: Counter[str] = Counter()

    def count(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__module__ in ("posix", "fcntl"):
            asked[called.__name__] += 1
        elif event == "call" and frame.f_code is open_handle.__code__:  # asks in one step
            asked["open"] += 1

    gc.collect()
    gc.disable()  # what others have left open would be closed in the middle of it
    sys.setprofile(count)
    try:
        receipt = store.append("a", [canister], after=position)
    finally:
        sys.setprofile(None)
        gc.enable()

    opening = {
        "open": 3,  # the lock, the messages, the tally
        "fstat": 1,  # with "stat", whether the lock is still in its place
    }
    kept = {"flock": 2, "getpid": 1, "lseek": 1, "write": 1, "pwrite": 1}
    # The folder: whether it is unchanged, or whether its files can stay open.
    assert asked == ({**kept, "stat": 1} if again else {**kept, **opening, "stat": 2})
    assert receipt.position == store.read("a").position


def test_065_an_append_imports_nothing(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even of what is there, each import takes as long as to encode the message."""
    position = store.append("a", [UserCanister("3")]).position
    importing, here = builtins.__import__, threading.get_ident()
    imported: list[str] = []

    def note(name: str, *others: Any) -> ModuleType:
        if threading.get_ident() == here:
            imported.append(name)
        return importing(name, *others)

    gc.collect()
    gc.disable()  # what others have left might import something when it is freed
    monkeypatch.setattr(builtins, "__import__", note)
    try:
        store.append("a", [UserCanister("4")], after=position)
    finally:
        monkeypatch.undo()
        gc.enable()

    assert imported == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
def test_066_a_pipe_in_the_place_of_the_messages_is_named(store: DirectoryStore) -> None:
    """Also by whoever knows where he left off, and asks only where the file ends."""
    position = store.append("a", [UserCanister("3")]).position
    messages_of(store, "a").unlink()
    os.mkfifo(messages_of(store, "a"))

    with pytest.raises(StoreError, match="a pipe or a device, not a file"):
        store.append("a", [UserCanister("4")], after=position)


def test_066_a_torn_end_behind_a_known_position_is_set_aside(store: DirectoryStore) -> None:
    """Whoever knows where he left off finds what another has left behind it."""
    position = store.append("a", [UserCanister("3")]).position
    with messages_of(store, "a").open("ab") as file:
        file.write(b'{"torn')

    receipt = store.append("a", [UserCanister("4")], after=position)

    (notice,) = receipt.notices
    assert "6 bytes, never acknowledged" in notice.message
    assert len(store.read("a").canisters) == 5


def test_070_reading_names_imports_nothing_heavy(tmp_path: Path) -> None:
    """A list of conversations costs no codec, no event loop, and no writer of TOML."""
    code = (
        "import sys; from vibe_llms.conversations import DirectoryStore\n"
        "from vibe_llms.conversations.metadata import ConversationMetadata\n"
        "store = DirectoryStore(sys.argv[1])\n"
        "[store.read_metadata(each) for each in store.survey()]\n"
        "print(*sorted({'msgspec', 'cattrs', 'asyncio', 'tomli_w', 'sqlite3', 'typing_extensions'}"
        " & set(sys.modules)))"
    )
    store = DirectoryStore(tmp_path)
    store.create("a", ConversationMetadata())

    output = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ},
    ).stdout

    assert output.split() == []
