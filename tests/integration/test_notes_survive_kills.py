"""Two writers of one note, killed at any moment, lose no acknowledged line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vibe_llms.conversations import DirectoryStore
from vibe_llms.memory import NoteBook
from vibe_llms.memory.paths import NotePaths

HERE = Path(__file__).parent


@pytest.mark.slow
def test_acknowledged_lines_are_in_the_note(tmp_path: Path) -> None:
    command = [sys.executable, HERE / "note_writers.py", tmp_path, "20"]
    subprocess.run(command, check=True, timeout=900)

    acknowledged = json.loads((tmp_path / "acknowledged.json").read_text())
    book = NoteBook(store=DirectoryStore(tmp_path).notes, paths=NotePaths(project="web"))
    note = book.read("list")
    lines = note.text.split()
    assert len(acknowledged) > 20
    assert set(acknowledged) <= set(lines)
    # At most one line of each writer was written and not acknowledged.
    assert len(lines) - len(acknowledged) <= 2 * 20
    assert len(set(lines)) == len(lines)
    assert note.created is not None
    for writer in {line.split(".")[0] for line in lines}:
        numbers = [int(line.split(".")[1]) for line in lines if line.startswith(f"{writer}.")]
        assert numbers == [*range(1, len(numbers) + 1)]
    book.write("list", "end")  # the drafts of the killed are cleared away
    assert [path.name for path in (tmp_path / "notes" / "own" / "user").iterdir()] == ["list.md"]
