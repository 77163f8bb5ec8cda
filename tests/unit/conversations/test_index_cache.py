"""That the index is only a cache: what happens to it never changes an answer."""

from __future__ import annotations

import functools
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.index import (
    ConversationIndex,
    database,
    index_writer,
    questions,
    texts,
)
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.messages.canisters import UserCanister


@pytest.fixture
def index(tmp_path: Path) -> ConversationIndex:
    """An index over three conversations, which has been used once."""
    store = DirectoryStore(tmp_path)
    for identity in ("one", "two", "three"):
        store.create(identity, ConversationMetadata(name=identity.title()))
        store.append(identity, [UserCanister(f"word {identity}")])
    index = ConversationIndex(tmp_path / "conversations", tmp_path / "index.sqlite")
    assert is_right(index)
    return index


def is_right(index: ConversationIndex) -> bool:
    rows = {(row.id, row.name, row.canisters) for row in index.survey()}
    hits = {(hit.id, hit.index) for hit in index.search("word")}
    names = ("one", "two", "three")
    return rows == {(name, name.title(), 1) for name in names} and hits == {
        (name, 0) for name in names
    }


def remove(path: Path) -> None:
    path.unlink()


def overwrite_start(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"garbage " * 20)


def overwrite_middle(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


def truncate(path: Path) -> None:
    os.truncate(path, 5000)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def change_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


def drop_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE places")


@pytest.mark.parametrize(
    "harm",
    [remove, overwrite_start, overwrite_middle, truncate, empty, change_version, drop_table],
)
def test_is_made_anew_when_it_is_gone_or_damaged(
    index: ConversationIndex, tmp_path: Path, harm: object
) -> None:
    """Whatever happens to the database, answers stay right and the next one is fast again."""
    harm(tmp_path / "index.sqlite")  # type: ignore[operator]

    assert is_right(index)
    with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection:
        count = connection.execute("SELECT count(*) FROM conversations").fetchone()
        version = connection.execute("PRAGMA user_version").fetchone()
    assert (count, version) == ((3,), (database.VERSION,))


def test_reads_the_files_while_another_process_keeps_the_database_locked(
    index: ConversationIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process that writes for long delays an answer by the patience, and no longer."""
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.05)
    DirectoryStore(tmp_path).append("one", [UserCanister("newer")])

    with closing(sqlite3.connect(tmp_path / "index.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        hits = index.search("newer")
        unchanged = index.search("word")
        other.execute("ROLLBACK")

    assert [(hit.id, hit.index) for hit in hits] == [("one", 1)]
    assert len(unchanged) == 3


def test_reads_the_files_while_another_process_uses_a_damaged_database(
    index: ConversationIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that others have open is not taken away from them."""
    import fcntl

    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.05)
    overwrite_start(tmp_path / "index.sqlite")
    damaged = (tmp_path / "index.sqlite").read_bytes()

    with (tmp_path / "index.sqlite.lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert is_right(index)

    assert (tmp_path / "index.sqlite").read_bytes() == damaged


def test_reads_the_files_where_no_database_can_be(tmp_path: Path, index: ConversationIndex) -> None:
    """Where the cache cannot be written, answers come all the same."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder.sqlite").mkdir()

    for place in (tmp_path / "file" / "index.sqlite", tmp_path / "folder.sqlite"):
        assert is_right(ConversationIndex(tmp_path / "conversations", place))


def test_serves_several_stores_without_mixing_them_up(
    tmp_path: Path, index: ConversationIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that shares the cache with another does not take it away in the midst of a list."""
    from vibe_llms.conversations.index import index as module

    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.05)
    other = DirectoryStore(tmp_path / "other")
    other.create("elsewhere", ConversationMetadata())
    other_index = ConversationIndex(tmp_path / "other/conversations", tmp_path / "index.sqlite")
    original, answers = module.refresh_messages, []

    def refresh_and_be_disturbed(*arguments: Any, **more: Any) -> None:
        original(*arguments, **more)
        monkeypatch.setattr(module, "refresh_messages", original)
        answers.append([row.id for row in other_index.survey()])

    monkeypatch.setattr(module, "refresh_messages", refresh_and_be_disturbed)
    mine = {row.id for row in index.survey()}
    answers.append([row.id for row in other_index.survey()])

    assert mine == {"one", "two", "three"}
    assert answers == [["elsewhere"]] * 2
    assert is_right(index)


def test_is_readable_by_its_owner_only(index: ConversationIndex, tmp_path: Path) -> None:
    """What people tell a model is nobody else's business, in the index neither."""
    assert (tmp_path / "index.sqlite").stat().st_mode & 0o077 == 0


def test_keeps_what_was_indexed_when_it_is_interrupted(
    index: ConversationIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted rebuild leaves whole conversations, and the next call completes it."""
    (tmp_path / "index.sqlite").unlink()
    monkeypatch.setattr(index_writer, "BATCH", 1)
    monkeypatch.setattr(texts, "BATCH_BYTES", 1)
    original_synopsis, original_place = index_writer.read_synopsis, texts.read_entry
    calls = []

    def interrupt(original: Any, *arguments: Any) -> object:
        calls.append(arguments)
        if len(calls) in (3, 7):
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(
        index_writer, "read_synopsis", functools.partial(interrupt, original_synopsis)
    )
    monkeypatch.setattr(texts, "read_entry", functools.partial(interrupt, original_place))
    with pytest.raises(KeyboardInterrupt):
        index.survey()
    index.survey()
    with pytest.raises(KeyboardInterrupt):
        index.search("word")

    assert is_right(index)
    assert len(calls) == 8


def test_answers_several_threads_at_once(tmp_path: Path, index: ConversationIndex) -> None:
    """Threads that begin with no database all get right answers."""
    for path in tmp_path.glob("index.sqlite*"):
        path.unlink()
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda: answers.append(is_right(index))) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [True] * 8


@pytest.mark.slow
def test_answers_several_processes_while_others_write(tmp_path: Path) -> None:
    """Processes that list and search while others append see all that was acknowledged before."""
    program = """
import sys
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.index import ConversationIndex
from vibe_llms.messages.canisters import UserCanister
root, me = sys.argv[1:]
store = DirectoryStore(root)
index = ConversationIndex(root + "/conversations", root + "/index.sqlite")
store.create(me, ConversationMetadata())
for number in range(15):
    store.append(me, [UserCanister(f"{me} number{number}")])
    found = {hit.index for hit in index.search(me, limit=99) if hit.id == me}
    assert found == set(range(number + 1)), found
    row, = (row for row in index.survey() if row.id == me)
    assert row.canisters == number + 1, row
    if number == 7 and me == "w0":
        with open(root + "/index.sqlite", "r+b") as file:
            file.write(b"damage " * 100)
"""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), f"w{number}"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]

    errors = [worker.communicate(timeout=120)[1] for worker in workers]

    assert errors == ["", "", ""]


def test_imports_no_parser_where_nothing_has_changed(
    index: ConversationIndex, tmp_path: Path
) -> None:
    """A list of what is indexed already touches neither JSON nor TOML, nor any of our objects."""
    program = """
import sys
from vibe_llms.conversations.index import ConversationIndex
root = sys.argv[1]
assert len(ConversationIndex(root + "/conversations", root + "/index.sqlite").survey()) == 3
print(*{"json", "tomli", "attrs", "msgspec", "asyncio"} & sys.modules.keys())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == ""


@pytest.mark.parametrize("ask", ["survey", "search"])
def test_answers_from_one_moment(
    ask: str, tmp_path: Path, index: ConversationIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process takes out of the index while an answer is put together is in it still.

    The other process is played by a second connection, at the first row that is put together.
    """
    trace = questions.Lineage.trace

    def forget_all_before(*args: object) -> object:
        with closing(sqlite3.connect(tmp_path / "index.sqlite")) as other:
            for table in ("places", "texts", "conversations"):
                other.execute(f"DELETE FROM {table}")
            other.commit()
        monkeypatch.setattr(questions.Lineage, "trace", trace)
        return trace(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(questions.Lineage, "trace", forget_all_before)

    answers = index.survey() if ask == "survey" else index.search("word")

    assert {answer.id for answer in answers} == {"one", "two", "three"}


class RecordingProgress:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def start(self, total: int | None, label: str) -> None:
        self.told.append(total)

    def advance(self, amount: int) -> None:
        self.told.append(amount)

    def finish(self) -> None:
        self.told.append("finished")


def test_long_indexing_is_shown_and_short_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever indexes many megabytes sees how far it has come; a small change flashes nothing."""
    store = DirectoryStore(tmp_path)
    for identity in ("one", "two", "three"):
        store.create(identity, ConversationMetadata())
        store.append(identity, [UserCanister(f"word {identity}")])
    sizes = [path.stat().st_size for path in tmp_path.glob("conversations/*/*/messages.jsonl")]
    progress = RecordingProgress()

    def survey(name: str) -> None:
        ConversationIndex(tmp_path / "conversations", tmp_path / name, progress).survey()

    survey("small.sqlite")
    assert progress.told == []
    monkeypatch.setattr(index_writer, "BATCH", 2)
    survey("large.sqlite")
    assert_shows(progress, sizes)
    survey("large.sqlite")
    assert len(progress.told) == 5

    progress.told.clear()
    index = ConversationIndex(tmp_path / "conversations", tmp_path / "large.sqlite", progress)
    monkeypatch.setattr(texts, "BATCH_BYTES", 10)
    index.search("word")
    assert_shows(progress, sizes)
    index.search("word")
    assert len(progress.told) == 5


def assert_shows(progress: RecordingProgress, sizes: list[int]) -> None:
    total, *advances, last = progress.told
    assert (total, last) == (sum(sizes), "finished")
    assert sorted(map(str, advances)) == sorted(map(str, sizes))


def test_each_store_has_its_own_database(tmp_path: Path) -> None:
    """A list of another store discards nothing; a deleted store leaves no index behind."""
    cache, indexes = tmp_path / "cache", []
    for name in ("here", "there"):
        DirectoryStore(tmp_path / name).create(name, ConversationMetadata())
        indexes.append(ConversationIndex.open_cached(tmp_path / name / "conversations", cache))
        assert [row.id for row in indexes[-1].survey()] == [name]
    databases = {path: path.stat().st_mtime_ns for path in cache.glob("index/*.sqlite")}
    assert len(databases) == 2

    assert [[row.id for row in index.survey()] for index in indexes] == [["here"], ["there"]]
    assert {path: path.stat().st_mtime_ns for path in databases} == databases

    shutil.rmtree(tmp_path / "here")
    DirectoryStore(tmp_path / "third").create("third", ConversationMetadata())
    ConversationIndex.open_cached(tmp_path / "third/conversations", cache).survey()
    assert len(databases.keys() & {*cache.glob("index/*.sqlite")}) == 1
    assert len([*cache.glob("index/*.sqlite")]) == 2


def test_a_list_indexes_no_text(index: ConversationIndex, tmp_path: Path) -> None:
    """The text is indexed by the first search, for which it is needed."""
    (tmp_path / "index.sqlite").unlink()

    def count_texts() -> int:
        with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection:
            count: int = connection.execute("SELECT count(*) FROM texts").fetchone()[0]
            return count

    index.survey()
    assert count_texts() == 0
    index.search("word")
    assert count_texts() == 3
