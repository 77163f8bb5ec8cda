"""Directories and PostgreSQL are copied into each other, also under kills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.stores.disks import Crash, HastyDisk
from support.stores.postgresql_server import opened
from support.stores.stored import add_run, change_at_random, describe, is_whole
from vibe_llms.conversations import DirectoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.runs.copying import copy_store
from vibe_llms.runs.syncing import sync_stores

pytestmark = pytest.mark.postgresql


@pytest.fixture
def database(tmp_path: Path) -> Iterator[PostgresqlStore]:
    """An empty store in a database."""
    with opened(tmp_path) as made:
        yield made


@pytest.mark.parametrize("seed", range(4))
def test_000_to_the_database_and_back(database: PostgresqlStore, tmp_path: Path, seed: int) -> None:
    """What comes back is what was there, with forks, logs, messages and content; twice over."""
    source = DirectoryStore(tmp_path / "source", disk=HastyDisk())
    back = DirectoryStore(tmp_path / "back", disk=HastyDisk())
    for number in range(2):
        change_at_random(source, 2 * seed + number, 12)
        for identity in list(database.survey()):
            if identity not in list(source.survey()):  # a copy deletes nothing
                database.delete(identity)
        for content_id in set(database.contents.survey()) - set(source.contents.survey()):
            database.contents.remove(content_id)

        there, here = copy_store(source, database), copy_store(database, back)

        assert there.is_whole, there
        assert describe(database) == describe(source)
        assert not verify(database).findings
        if not number:
            assert here.is_whole, here
            assert describe(back) == describe(source)


def test_010_moments_are_kept(database: PostgresqlStore, tmp_path: Path) -> None:
    """When something was begun and last said in is the same at the other side."""
    source = DirectoryStore(tmp_path / "source", disk=HastyDisk())
    source.create("a", ConversationMetadata())
    add_run(source, "a", "hello")

    copy_store(source, database)

    assert database.read_metadata("a") == source.read_metadata("a")
    assert database.read("a").canisters == source.read("a").canisters


def test_020_killed_at_any_statement_the_database_has_whole_conversations(
    database: PostgresqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction for each conversation, with its log and its messages; also as it grows."""
    source = DirectoryStore(tmp_path / "source", disk=HastyDisk())
    change_at_random(source, 5, 10)
    copy_store(source, database)
    former = describe(source)["conversations"]
    for identity in list(source.survey()):
        add_run(source, identity, "more")
    change_at_random(source, 6, 6)
    wanted = describe(source)
    execute, left = psycopg.Connection.execute, [0]

    def count(self: Any, *arguments: Any, **settings: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Crash
        return execute(self, *arguments, **settings)

    monkeypatch.setattr(psycopg.Connection, "execute", count)
    crashes = 0
    for number in range(3, 10_000, 7):
        left[0] = number
        try:
            copy_store(source, database)
            break
        except Crash:
            crashes += 1
        left[0] = 0
        for identity, value in describe(database)["conversations"].items():
            assert value in (former.get(identity), wanted["conversations"].get(identity))
    left[0] = 0
    assert crashes > 5
    assert is_whole(database, wanted)
    assert copy_store(source, database).is_whole


def test_030_a_run_in_the_database_is_told(database: PostgresqlStore, tmp_path: Path) -> None:
    """It goes on undisturbed, and is copied as far as it was."""
    from vibe_llms.events.engine import RunStartedEvent

    database.create("a", ConversationMetadata())
    log = database.open_log("a")
    log.claim()
    log.append("run", RunStartedEvent(run_id="run", conversation_id="a", length=1))

    report = copy_store(database, DirectoryStore(tmp_path / "to", disk=HastyDisk()))
    log.append("run", RunStartedEvent(run_id="run", conversation_id="a", length=1))
    log.close()

    assert report.working == ("a",)
    assert report.is_whole


@pytest.mark.parametrize("seed", range(3))
def test_040_a_database_and_a_folder_are_synchronized(
    database: PostgresqlStore, tmp_path: Path, seed: int
) -> None:
    """Both have the same histories afterwards, and a second time nothing changes."""
    folder = DirectoryStore(tmp_path / "folder", disk=HastyDisk())
    for number in range(2):
        for place, store in enumerate((folder, database)):
            change_at_random(store, 10 * seed + 2 * number + place, 10)
        assert sync_stores(folder, database).is_whole
        here, there = (
            {store.read(each).canisters for each in store.survey()} for store in (folder, database)
        )
        assert here == there
        assert not sync_stores(database, folder).changes
        assert not verify(database).findings
