"""What a turn costs, counted: a clock says something else on every machine."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from support.runs.acting import invoke, say, script
from vibe_llms import Engine
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.invocables import produce_invoker
from vibe_llms.logs.disk import Disk

CALLS_LIMIT = 660
"""Calls of Python functions in a turn, asking the model included: 651 with Python 3.11, which calls
one for each comprehension."""

BYTES_LIMIT = 2_640
"""Bytes of a turn in the files of a conversation, its log and both tallies: at most 2,611."""


class CountingDisk(Disk):
    """Counts what is written, and how often the disk is waited for."""

    def __init__(self) -> None:
        self.written = 0
        self.waits = 0

    def write(self, descriptor: int, data: bytes) -> None:
        super().write(descriptor, data)
        self.written += len(data)

    def overwrite_start(self, descriptor: int, data: bytes) -> None:
        super().overwrite_start(descriptor, data)
        self.written += len(data)

    def synchronize(self, descriptor: int) -> None:
        super().synchronize(descriptor)
        self.waits += 1


async def look(place: str) -> str:
    """Looks at a place."""
    return place


async def count_calls(turns: int) -> int:
    """Counts the calls of a run whose model invokes something so many times."""
    answers = [[invoke("look", f"call-{number}", place="x")] for number in range(turns)]
    tool = produce_invoker(look, effect="pure")
    engine = Engine(script(*answers, [say("Done.")]), [tool], store=MemoryStore(), stream=False)
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and "scripted" not in frame.f_code.co_filename

    sys.setprofile(note)
    try:
        outcome = await engine.answer("Go")
    finally:
        sys.setprofile(None)
    assert outcome.text == "Done."
    return count


async def test_a_turn_takes_so_many_calls() -> None:
    """Of a model that is asked, a tool that is invoked, and a store that keeps both."""
    await count_calls(1)

    # A busy machine makes the loop wake more often.
    costs = [(await count_calls(40) - await count_calls(10)) / 30 for _ in range(3)]

    assert min(costs) <= CALLS_LIMIT


async def measure_files(folder: Path, turns: int, effect: str) -> CountingDisk:
    """Measures what a run writes whose model invokes something so many times."""
    answers = [[invoke("look", f"call-{number:02}", place="x")] for number in range(turns)]
    disk = CountingDisk()
    store = DirectoryStore(folder / f"{turns}-{effect}", disk=disk)
    tool = produce_invoker(look, effect=effect)
    engine = Engine(script(*answers, [say("Done.")]), [tool], store=store, stream=False)
    outcome = await engine.answer("Go")
    assert outcome.text == "Done."
    return disk


@pytest.mark.slow
@pytest.mark.parametrize(("effect", "waits"), [("pure", 3), ("once", 4)])
async def test_a_turn_writes_so_many_bytes_and_waits_so_often(
    tmp_path: Path, effect: str, waits: int
) -> None:
    """Of a run that is 10 turns long, and of one of 40: what was written is not written again.

    The disk is waited for when the model is about to be asked, for its answer and for the result;
    once more before what must not be done twice is begun.
    """
    few = await measure_files(tmp_path, 10, effect)
    many = await measure_files(tmp_path, 40, effect)

    assert many.waits - few.waits == 30 * waits
    assert many.written - few.written <= 30 * BYTES_LIMIT
