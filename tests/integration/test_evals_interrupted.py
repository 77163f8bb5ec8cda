"""Runs of a suite that are killed continue, and several may use one cache at the same time."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.screens.command_line import VIBE, produce_environment

pytestmark = pytest.mark.slow

SUITE = """
prompt = "Say {{ number }}."
concurrency = 2

[[subjects]]
name = "slow"
model = "scripted:./slow.toml"

[[judges]]
name = "mentions"
kind = "contains"

"""

SCRIPT = """
[[responses]]
delay_seconds = 0.02
chunk_characters = 0
contents = [{ text = "You said: {input}" }]
"""


def write_suite(folder: Path, count: int) -> None:
    """Write a suite with cases that take 20 ms each."""
    cases = [
        f'[[cases]]\nname = "c{n}"\nvariables = {{ number = {n} }}\nexpected = "Say {n}."\n'
        for n in range(count)
    ]
    (folder / "suite.toml").write_text(SUITE + "\n".join(cases), "utf-8")
    (folder / "slow.toml").write_text(SCRIPT, "utf-8")


async def start(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    """Start ``vibe eval`` in a folder."""
    return await asyncio.create_subprocess_exec(
        *VIBE,
        *("eval", "suite.toml", "--json", "--cache", "cache", *arguments),
        cwd=folder,
        env=produce_environment(folder),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def finish(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """Return the report of a run that ends well."""
    out, told = await process.communicate()
    assert process.returncode == 0, told
    report: dict[str, Any] = json.loads(out)
    return report


def count_cached(folder: Path) -> int:
    """Return the number of answers in the cache, which exists before the estimate is printed."""
    with closing(sqlite3.connect(folder / "cache" / "results.sqlite")) as cache:
        return int(cache.execute("SELECT COUNT(*) FROM results").fetchone()[0])


async def test_a_killed_run_continues_where_it_was(tmp_path: Path) -> None:
    """After each kill, more answers are cached, until the whole suite is answered."""
    write_suite(tmp_path, 300)
    cached = 0
    for _ in range(3):
        process = await start(tmp_path)
        assert process.stderr is not None
        told = await process.stderr.readline()  # the estimate: the first requests follow
        before = count_cached(tmp_path)
        async with asyncio.timeout(60):
            while count_cached(tmp_path) < before + 5:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        process.kill()
        await process.communicate()
        assert b"300 trials" in told

    report = await finish(await start(tmp_path))

    cached = sum(each["answer"]["is_cached"] for each in report["trials"])
    assert 0 < cached < 300
    assert report["summary"]["holds"] is True
    again = await finish(await start(tmp_path))
    assert all(each["answer"]["is_cached"] for each in again["trials"])


async def test_runs_at_the_same_time_agree(tmp_path: Path) -> None:
    write_suite(tmp_path, 60)

    processes = [await start(tmp_path) for _ in range(3)]
    reports = [await finish(each) for each in processes]

    assert all(each["summary"]["holds"] for each in reports)
    texts = [[each["answer"]["text"] for each in report["trials"]] for report in reports]
    assert texts[0] == texts[1] == texts[2]
