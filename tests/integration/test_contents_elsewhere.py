"""Content of conversations in PostgreSQL lies in S3, on a real server of both."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.stores.disks import HastyDisk
from support.stores.object_server import ObjectServer, access_object_server
from support.stores.postgresql_server import access_server, produce_url
from support.stores.stored import change_at_random, describe
from vibe_llms.conversations import DirectoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.proof import collect_content, plan_collection
from vibe_llms.conversations.stores.content_backends import DirectoryBackend
from vibe_llms.conversations.stores.content_urls import produce_backend
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.stores.objects import ObjectBackend
from vibe_llms.conversations.stores.postgresql.content_store import MOVE_LOCK
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.exceptions import CorruptionError, StoreError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import ImageContent, compute_content_id
from vibe_llms.runs.copying import copy_store

pytestmark = [pytest.mark.postgresql, pytest.mark.objects]

DATA = b"\x89PNG picture"
ID = compute_content_id(DATA)
PICTURE = ImageContent(mime_type="image/png", data=DATA, name="holiday.png")


class Death(BaseException):
    """The process is gone: nothing behind it is performed."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """The server, and its key in the environment."""
    server = access_object_server()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.identity)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    return server


@pytest.fixture
def address(server: ObjectServer, tmp_path: Path) -> str:
    """A part of the bucket for each test."""
    return f"{server.root}/{tmp_path.name}"


@contextmanager
def opened(directory: Path, address: str = "") -> Iterator[PostgresqlStore]:
    """Lends a store, as a process has it, and closes its connections."""
    content = f"&content={address}" if address else ""
    store = PostgresqlStore(f"{produce_url(directory)}{content}")
    try:
        yield store
    finally:
        store.database.close()


@pytest.fixture
def store(tmp_path: Path, address: str) -> Iterator[PostgresqlStore]:
    """An empty one with its content in the bucket."""
    with opened(tmp_path, address) as made:
        yield made


def say(store: ConversationStore) -> None:
    """Begins a conversation with a picture in it."""
    store.create("a", ConversationMetadata())
    store.append("a", [UserCanister([PICTURE])])


def count_rows(store: PostgresqlStore) -> int:
    """Returns of how much content the database knows, whole or not."""
    with store.database.transact() as connection:
        (count,) = connection.execute("SELECT count(*) FROM vibe_contents").fetchone() or (0,)
    return int(count)


def test_000_content_lies_in_the_bucket_and_any_store_of_the_database_reads_it(
    store: PostgresqlStore, address: str, tmp_path: Path
) -> None:
    """What was said lies in the database, which remembers where the bytes are."""
    say(store)

    assert produce_backend(address).read(ID) == DATA
    with store.database.transact() as connection:
        assert connection.execute("SELECT data FROM vibe_contents").fetchall() == [(None,)]
    with opened(tmp_path) as other:
        assert other == store
        assert other.contents.read(ID) == DATA
        assert other.contents.access_metadata(ID).size_bytes == len(DATA)
        assert other.contents.access_metadata(ID).name == "holiday.png"
        assert verify(other).findings == ()


def test_010_what_nothing_names_leaves_the_bucket(store: PostgresqlStore, address: str) -> None:
    """With the row, by a collection; what is named stays."""
    say(store)
    idle = store.contents.add(b"idle", mime_type="text/plain")

    done = collect_content(store, plan_collection(store, grace_seconds=0), grace_seconds=0)

    assert done.content_ids == (idle,)
    assert not produce_backend(address).has(idle, 4)
    assert produce_backend(address).has(ID, len(DATA))
    assert count_rows(store) == 1


@pytest.mark.parametrize("has_arrived", [False, True])
def test_020_who_dies_while_content_is_put_leaves_nothing_that_is_not_found(
    store: PostgresqlStore, address: str, monkeypatch: pytest.MonkeyPatch, has_arrived: bool
) -> None:
    """It is not there for anybody; adding it again brings it, and a collection clears it away."""
    put = ObjectBackend.put

    def die(self: ObjectBackend, *given: Any, **more: Any) -> None:
        if has_arrived:
            put(self, *given, **more)
        raise Death

    with monkeypatch.context() as patched:
        patched.setattr(ObjectBackend, "put", die)
        with pytest.raises(Death):
            store.contents.add(DATA, mime_type="image/png")
        with pytest.raises(Death):
            store.contents.add(b"two", mime_type="image/png")

    assert not store.contents.contains(ID)
    assert list(store.contents.survey()) == []
    with pytest.raises(StoreError, match="is not in the store"):
        store.contents.read(ID)
    say(store)
    assert store.contents.read(ID) == DATA
    assert count_rows(store) == 2
    collect_content(store, plan_collection(store))
    assert count_rows(store) == 1
    assert not produce_backend(address).has(compute_content_id(b"two"), 3)


def test_030_what_was_lost_or_damaged_in_the_bucket_is_told_and_put_again(
    store: PostgresqlStore, address: str
) -> None:
    """Each time that somebody brings the same, it is looked whether it is there."""
    say(store)
    place = produce_backend(address)
    place.remove(ID)
    assert "is missing in" in find(store)
    store.contents.add(DATA, mime_type="image/png")
    assert place.read(ID) == DATA

    damage(address, b"others")
    with pytest.raises(CorruptionError):
        store.contents.read(ID)
    assert "do not match the id" in find(store)
    store.contents.add(DATA, mime_type="image/png")
    assert verify(store).findings == ()


def find(store: PostgresqlStore) -> str:
    """Returns what is wrong with a store."""
    (found,) = verify(store).findings
    return found.message


def damage(address: str, data: bytes) -> None:
    """Puts other bytes in the place of the picture."""
    place = produce_backend(address)
    assert isinstance(place, ObjectBackend)
    place._put(ID, data)


@pytest.mark.parametrize("seed", range(2))
def test_040_a_store_is_copied_there_and_back(
    store: PostgresqlStore, address: str, tmp_path: Path, seed: int
) -> None:
    """From a directory into a bucket, from there into a database alone, and back."""
    source = DirectoryStore(tmp_path / "source", disk=HastyDisk())
    back = DirectoryStore(tmp_path / "back", disk=HastyDisk())
    change_at_random(source, seed, 12)
    with opened(tmp_path / "alone") as alone:
        reports = [
            copy_store(source, store),
            copy_store(store, alone),
            copy_store(alone, back),
        ]
        assert all(report.is_whole for report in reports), reports
        assert describe(source) == describe(store) == describe(alone) == describe(back)
    assert verify(store).findings == ()
    with pytest.raises(StoreError, match="into itself"), opened(tmp_path, address) as same:
        copy_store(store, same)


def test_041_content_of_one_database_is_moved_there_and_back(
    store: PostgresqlStore, address: str, tmp_path: Path
) -> None:
    """It is read back from there before it leaves; what cannot be read stays, and is told."""
    with opened(tmp_path) as alone:
        change_at_random(alone, 3, 12)
        say(alone)
        before, count = describe(alone), count_rows(alone)
        for source, target, where in ((alone, store, count), (store, alone, 0)):
            report = copy_store(source, target)

            assert report.is_whole, report
            assert report.comparisons[-1].target.count == count
            assert describe(alone) == before
            with alone.database.transact() as connection:
                counted = "SELECT count(*) FROM vibe_contents WHERE place = %s AND data IS NULL"
                assert connection.execute(counted, (address,)).fetchone() == (where,)
            assert produce_backend(address).has(ID, len(DATA)) == (target is store)
        copy_store(alone, store)
        damage(address, b"x" * len(DATA))
        report = copy_store(store, alone)
        assert [each.place for each in report.refused] == [ID]
        assert not report.is_whole
        assert produce_backend(address).has(ID, len(DATA))
        assert alone.contents.contains(ID)


@pytest.mark.parametrize("is_spoken_of", [False, True])
def test_042_content_is_not_moved_out_of_the_place_to_which_it_goes(
    tmp_path: Path, is_spoken_of: bool
) -> None:
    """One may have several names, and stand, after a crash, beside what is in the table."""
    (tmp_path / "shared").mkdir()
    address = f"file://{tmp_path}/shared"
    with (
        opened(tmp_path, address) as here,
        opened(tmp_path, f"{address}/") as there,
        opened(tmp_path) as alone,
    ):
        say(here)
        if is_spoken_of:
            produce_backend(address).remove(ID)
            set_row(alone, DATA, None, address)
        assert copy_store(alone, there).is_whole
        assert alone.contents.read(ID) == DATA
        set_row(alone, DATA, None, f"{address}/")
        assert copy_store(alone, there).is_whole
        assert alone.contents.read(ID) == DATA


def set_row(store: PostgresqlStore, data: bytes | None, size: int | None, place: str) -> None:
    """Writes where the picture is said to be."""
    with store.database.begin() as connection:
        connection.execute(
            "UPDATE vibe_contents SET data = %s, size = %s, place = %s", (data, size, place)
        )


def test_043_who_puts_content_back_while_it_leaves_is_heeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He had looked before it was in the table, and found it gone; and only one moves at a time."""
    (tmp_path / "shared").mkdir()
    address = f"file://{tmp_path}/shared"
    remove = DirectoryBackend.remove
    with opened(tmp_path, address) as here, opened(tmp_path) as alone:
        say(here)

        def put_back(self: DirectoryBackend, content_id: str) -> None:
            remove(self, content_id)
            self.put(ID, DATA, mime_type="image/png", name=None)
            set_row(here, None, len(DATA), address)
            with here.database.begin() as connection:
                taken = "SELECT pg_try_advisory_xact_lock(%s)"
                assert connection.execute(taken, (MOVE_LOCK,)).fetchone() == (False,)

        monkeypatch.setattr(DirectoryBackend, "remove", put_back)
        assert copy_store(here, alone).is_whole
        assert alone.contents.read(ID) == DATA


def test_050_a_copy_of_what_is_damaged_says_so(
    store: PostgresqlStore, address: str, tmp_path: Path
) -> None:
    """Nothing is proven that was not read and hashed."""
    say(store)
    damage(address, b"x" * len(DATA))

    report = copy_store(store, DirectoryStore(tmp_path / "to", disk=HastyDisk()))

    assert not report.is_whole
    assert [each.place for each in report.refused] == ["a", ID]
    assert "do not match the id" in report.refused[1].message


def test_060_a_wrong_key_stores_nothing(
    store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server checks it; the line that would name the content is not written."""
    store.create("a", ConversationMetadata())
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")

    with pytest.raises(StoreError, match="SignatureDoesNotMatch"):
        store.append("a", [UserCanister([PICTURE])])

    assert store.read("a").canisters == ()


def test_070_tables_of_the_format_before_become_those_of_now(tmp_path: Path, address: str) -> None:
    """With what is in them; content that is there stays there."""
    with opened(tmp_path) as old:
        say(old)
        with old.database.transact() as connection:
            connection.execute("ALTER TABLE vibe_contents DROP COLUMN place, DROP COLUMN size")
            connection.execute("ALTER TABLE vibe_contents ALTER COLUMN data SET NOT NULL")
            connection.execute("ALTER TABLE vibe_format DROP COLUMN owner")
            connection.execute("DROP TABLE vibe_vendor_files, vibe_notes, vibe_deleted_notes")
            connection.execute("UPDATE vibe_format SET version = 1")

    with opened(tmp_path, address) as new:
        assert new.contents.read(ID) == DATA
        new.contents.add(DATA, mime_type="image/png")
        added = new.contents.add(b"new", mime_type="image/png")
        assert produce_backend(address).read(added) == b"new"
        assert not produce_backend(address).has(ID, len(DATA))


def test_080_a_crowd_adds_while_others_collect(tmp_path: Path) -> None:
    """Nothing that a message names is taken, whoever brings the same and whoever clears away."""
    (tmp_path / "shared").mkdir()
    address = f"file://{tmp_path}/shared"
    with opened(tmp_path, address) as one, opened(tmp_path, address) as two:
        for number in range(4):
            one.create(f"c{number}", ConversationMetadata())
        is_over = threading.Event()

        def bring(number: int) -> None:
            store = (one, two)[number % 2]
            for step in range(15):
                data = b"picture %d" % (step * (number + 1) % 12)
                picture = ImageContent(mime_type="image/png", data=data)
                store.append(f"c{number}", [UserCanister([picture])])
                store.contents.add(b"idle %d" % step, mime_type="text/plain")

        def collect() -> None:
            while not is_over.is_set():
                with suppress(StoreError):  # others have added for long
                    collect_content(one, plan_collection(one, grace_seconds=0), grace_seconds=0)

        with ThreadPoolExecutor(5) as threads:
            clearing = threads.submit(collect)
            bringing = [threads.submit(bring, number) for number in range(4)]
            try:
                for each in bringing:
                    each.result()
            finally:
                is_over.set()
            clearing.result()

        assert verify(two).findings == ()
        collect_content(one, plan_collection(one, grace_seconds=0), grace_seconds=0)
        files = {path.name for path in (tmp_path / "shared").glob("*/*")}
        assert files == set(two.contents.survey()) == set(two.survey_references())


@pytest.fixture(params=["folder", "bucket"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place of each kind."""
    if request.param == "bucket":
        return str(request.getfixturevalue("address"))
    (tmp_path / "shared").mkdir()
    return f"file://{tmp_path}/shared"


def test_090_a_place_belongs_to_one_database(tmp_path: Path, elsewhere: str) -> None:
    """The second one puts nothing there and removes nothing, and is told what to do."""
    (tmp_path / "other").mkdir()
    with (
        opened(tmp_path, elsewhere) as one,
        opened(tmp_path / "other", elsewhere) as two,
        opened(tmp_path / "other") as alone,
    ):
        say(one)
        with pytest.raises(
            StoreError, match=r"content of another database, .* its own folder or prefix"
        ):
            say(two)
        with pytest.raises(StoreError, match="of another database"):
            two.contents.bring(alone.contents.add(DATA, mime_type="image/png"))
        # As one that had its content there before places had marks.
        alone.append("a", [UserCanister([PICTURE])])
        set_row(alone, None, len(DATA), elsewhere)  # type: ignore[arg-type]
        assert copy_store(two, alone).is_whole
        assert alone.contents.read(ID) == DATA
        set_row(alone, None, len(DATA), elsewhere)  # type: ignore[arg-type]
        with alone.contents.hold_alone():
            alone.contents.remove(ID)
        assert one.contents.read(ID) == DATA
        assert not list(two.contents.survey_strays(grace_seconds=0))
        with opened(tmp_path, elsewhere) as again:
            again.contents.add(b"more", mime_type="text/plain")


def test_091_what_a_broken_move_left_is_found_and_removed(tmp_path: Path, elsewhere: str) -> None:
    """Not what is named, by whatever URL of the place, nor what was there before it was marked."""
    before, left = b"before", b"left"
    place = produce_backend(elsewhere)
    place.put(compute_content_id(before), before, mime_type="text/plain", name=None)
    age(elsewhere, before)
    with opened(tmp_path, elsewhere) as store, opened(tmp_path, f"{elsewhere}/") as same:
        assert not plan_collection(store, grace_seconds=0, strays=True).strays
        assert not place.read_mark()  # to look claims nothing
        say(store)
        same.contents.add(b"named", mime_type="text/plain")
        place.put(compute_content_id(left), left, mime_type="text/plain", name=None)
        assert not plan_collection(store, grace_seconds=60, strays=True).strays
        plan = plan_collection(store, grace_seconds=0, strays=True)
        assert [each.content_id for each in plan.strays] == [compute_content_id(left)]
        assert not plan_collection(store, grace_seconds=0).strays
        done = collect_content(store, plan, grace_seconds=0)
        assert done.strays == plan.strays
        assert done.size_bytes == len(left) + len(b"named")
        assert not place.has(compute_content_id(left), len(left))
        assert place.has(compute_content_id(before), len(before))
        assert store.contents.read(ID) == DATA


def test_092_a_copy_of_a_database_takes_nothing_from_the_first(
    tmp_path: Path, elsewhere: str
) -> None:
    """It reads what is there; it neither removes it nor takes it for stray, nor adds to it."""
    import psycopg

    server = access_server().url
    names = [f"{kind}{tmp_path.name.replace('-', '_').lower()}" for kind in ("first", "second")]
    urls = [f"{server.rpartition('/')[0]}/{name}" for name in names]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {names[0]}")
        first = PostgresqlStore(f"{urls[0]}?content={elsewhere}")
        say(first)
        first.database.close()
        connection.execute(f"CREATE DATABASE {names[1]} TEMPLATE {names[0]}")
    second = PostgresqlStore(f"{urls[1]}?content={elsewhere}")
    first.contents.add(b"more", mime_type="text/plain")
    assert second.contents.read(ID) == DATA
    assert not list(second.contents.survey_strays(grace_seconds=0))
    with pytest.raises(StoreError, match=r"of another database, .* this one replaces it"):
        second.contents.add(b"other", mime_type="text/plain")
    second.delete("a")
    collect_content(second, plan_collection(second, grace_seconds=0), grace_seconds=0)
    assert not list(second.contents.survey())
    assert first.contents.read(ID) == DATA
    for each in (first, second):
        each.database.close()


def age(address: str, data: bytes) -> None:
    """Lets what lies in a place be of long ago; a bucket says whole seconds of its mark."""
    if address.startswith("file:"):
        content_id = compute_content_id(data)
        path = f"{address.removeprefix('file://')}/{content_id[:4]}/{content_id}/data"
        os.utime(path, (0, 0))
    else:
        time.sleep(1.1)


def test_092_a_list_of_a_bucket_is_read_page_by_page(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With names of others between, which are none of ours."""
    monkeypatch.setattr("vibe_llms.conversations.stores.objects.PAGE_OBJECTS", 2)
    place = produce_backend(address)
    assert place.claim("me 1") == "me 1"
    assert place.claim("you 2") == "me 1"
    wanted = set()
    for number in range(5):
        data = b"%d" % number
        wanted.add(compute_content_id(data))
        place.put(compute_content_id(data), data, mime_type="text/plain", name=None)
    assert {each.content_id for each in place.survey()} == wanted
    assert {each.size_bytes for each in place.survey()} == {1}
