"""The cache of paid results: shared by runs, bounded, and refused if it is not one."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from vibe_llms.evals.caches import EvalCache
from vibe_llms.exceptions import StoreError


async def test_two_runs_share_a_cache_and_the_first_result_stays(tmp_path: Path) -> None:
    one, other = EvalCache(tmp_path / "c"), EvalCache(tmp_path / "c")

    await one.add("k", b"1")
    await other.add("k", b"2")

    assert await one.find("k") == await other.find("k") == b"1"
    await other.add("k", b"3", replaces=True)
    assert await one.find("k") == b"3"
    assert await one.find("unknown") is None
    one.close()
    other.close()


def test_runs_that_start_at_the_same_moment_share_a_new_cache(tmp_path: Path) -> None:
    """SQLite refuses to switch a file to its log while another does, without waiting."""
    problems: list[BaseException] = []

    def use(folder: Path) -> None:
        try:
            EvalCache(folder).close()
        except BaseException as error:
            problems.append(error)

    for number in range(5):
        threads = [threading.Thread(target=use, args=(tmp_path / str(number),)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert problems == []


async def test_the_oldest_results_are_removed_beyond_the_limit(tmp_path: Path) -> None:
    cache = EvalCache(tmp_path)
    for number in range(4):
        await cache.add(str(number), bytes(100))
    cache.close()

    cache = EvalCache(tmp_path, max_bytes=250)

    found = [await cache.find(str(number)) is not None for number in range(4)]
    assert found == [False, False, True, True]
    cache.close()


def test_damage_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "results.sqlite").write_bytes(b"not a database, but long enough to look at" * 9)

    with pytest.raises(StoreError, match="Cannot use the cache") as caught:
        EvalCache(tmp_path)

    assert "Delete it" in str(caught.value)


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "results.sqlite")
    connection.execute("PRAGMA user_version = 9")
    connection.close()

    with pytest.raises(StoreError, match="another version"):
        EvalCache(tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="Cannot use the cache"):
        EvalCache(tmp_path / "file" / "c")
