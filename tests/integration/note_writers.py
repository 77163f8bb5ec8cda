"""Plays with writers of notes that are killed: run by the test beside it, in a process of its own.

Two writers add lines to one note as fast as they can, and note each acknowledgement in a pipe,
which survives them. At a random moment both are killed. Prints the acknowledged lines as JSON.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

from vibe_llms.conversations import DirectoryStore
from vibe_llms.memory import NoteBook
from vibe_llms.memory.paths import NotePaths
from vibe_llms.memory.settings import MemorySettings

LONGEST_SECONDS = 0.05


def open_book(path: str) -> NoteBook:
    settings = MemorySettings(note_bytes=500_000)
    return NoteBook(
        store=DirectoryStore(path).notes, paths=NotePaths(project="web"), settings=settings
    )


def start_writer(path: str, label: str) -> tuple[int, int]:
    """Fork a writer; return its process and where it reports."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(reading)
            book, number = open_book(path), 0
            while True:
                number += 1
                book.add("list", f"{label}.{number}")
                os.write(writing, f"{label}.{number}\n".encode())
        finally:
            os._exit(1)
    os.close(writing)
    return process, reading


def play_round(path: str, name: str) -> list[str]:
    """Let two writers live for a moment; return what was acknowledged to them."""
    writers = [start_writer(path, f"{name}{each}") for each in "ab"]
    select.select([reading for _, reading in writers], [], [], 60)
    time.sleep(random.uniform(0, LONGEST_SECONDS))
    for process, _ in writers:
        os.kill(process, signal.SIGKILL)
    acknowledged: list[str] = []
    for process, reading in writers:
        _, status = os.waitpid(process, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, f"a writer failed by itself: {status}"
        with os.fdopen(reading) as report:
            acknowledged += report.read().split()
    return acknowledged


if __name__ == "__main__":
    lines = [
        each for number in range(int(sys.argv[2])) for each in play_round(sys.argv[1], f"r{number}")
    ]
    Path(sys.argv[1], "acknowledged.json").write_text(json.dumps(lines))
