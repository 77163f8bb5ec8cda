"""``vibe store migrate`` moves conversations of the former layout into subfolders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vibe_llms.conversations import DirectoryStore

Vibe = Callable[..., Any]


def test_conversations_of_the_former_layout_move(vibe: Vibe, home: Path) -> None:
    """They are listed and shown before and after; a run at work keeps its own where it is."""
    vibe("ask", "-m", "scripted:echo", "hello")
    (identity,) = (row["id"] for row in json.loads(vibe("list", "--json").out))
    data = home / ".local/share/vibe-llms"
    store = DirectoryStore(data)
    former = data / "conversations" / identity
    Path(store.locate(identity)).rename(former)
    before = vibe("show", identity).out
    log = store.open_log(identity)
    log.claim()

    busy = vibe("store", "migrate")
    log.close()
    moved = vibe("store", "migrate", "--json")

    assert (busy.code, "in use by another process" in busy.err) == (7, True)
    assert (moved.code, json.loads(moved.out)["moved"], former.exists()) == (0, 1, False)
    assert vibe("show", identity).out == before
    assert [row["id"] for row in json.loads(vibe("list", "--json").out)] == [identity]
    assert "Moved: 0" in vibe("store", "migrate").err
