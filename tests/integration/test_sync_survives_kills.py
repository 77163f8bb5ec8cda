"""``vibe sync`` is killed at later and later moments, and completed by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.stores.stored import add_run
from support.stores.talks import exchange, fork, save
from vibe_llms.conversations import DirectoryStore, verify
from vibe_llms.runs.syncing import sync_stores

pytestmark = pytest.mark.slow


def count_files(folder: Path) -> int:
    """Count the files of the stores in a folder."""
    return sum(1 for _ in folder.rglob("*"))


def test_a_hundred_conversations_arrive_whole(tmp_path: Path) -> None:
    """Each is there completely or not at all, and the end is the same as without a kill."""
    here, there = DirectoryStore(tmp_path / "vibe-llms"), DirectoryStore(tmp_path / "stick")
    identities = [
        save(here, [*exchange(f"one {number}"), *exchange("more")]) for number in range(60)
    ]
    sync_stores(here, there)
    for number, identity in enumerate(identities):
        add_run(there if number % 2 else here, identity, f"run {number}")
        if number % 3 == 0:
            there.append(identity, exchange("there"))
        if number % 6 == 0:
            here.append(identity, exchange("here"))
            fork(there, identity, exchange("fork"), at=3)
        save(here, exchange(f"new {number}"))
    wanted = {store.read(each).canisters for store in (here, there) for each in store.survey()}
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "vibe_llms", "sync", str(tmp_path / "stick")]
    is_killed, patience, kills_at_work = True, 0.0, 0
    while is_killed:
        before = count_files(tmp_path)
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and count_files(tmp_path) <= before:
            time.sleep(0.01)  # not at work yet
        try:
            is_killed = False
            assert process.wait(patience) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            is_killed = process.wait() < 0
            kills_at_work += is_killed
        patience = 1.3 * patience + 0.01
        for store in (here, there):
            for identity in store.survey():
                said = store.read(identity).canisters
                assert any(said == each[: len(said)] for each in wanted)
    assert kills_at_work
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert not sync_stores(here, there).changes
    sides = [{store.read(each).canisters for each in store.survey()} for store in (here, there)]
    assert sides[0] == sides[1]
    assert all(any(said == each[: len(said)] for each in sides[0]) for said in wanted)
    for store in (here, there):
        assert not verify(store).findings
