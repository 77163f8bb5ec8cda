"""What an item of a batch costs beside its answer, counted."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from vibe_llms import Application, BatchChannel, Model
from vibe_llms.configuration.sources import load_configuration

CALLS_LIMIT = 100
"""Calls of Python functions an item, those that make the scripted answer not counted: 95
(Python 3.11, which calls one for each comprehension)."""


async def count_calls(model: Model, journal: Path, inputs: int) -> int:
    """Counts the calls of a batch of so many inputs."""
    count = depth = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count, depth
        is_provider = "providers" in frame.f_code.co_filename
        if event == "call":
            depth += is_provider
            count += not depth
        elif event == "return":
            depth -= is_provider

    batch = BatchChannel(model, concurrency=8, journal=journal)
    sys.setprofile(note)
    try:
        report = await batch.collect(f"Number {number}" for number in range(inputs))
    finally:
        sys.setprofile(None)
    assert len(report.results) == inputs
    return count


async def test_an_item_takes_so_many_calls(tmp_path: Path) -> None:
    """Of what is put to a model, written into a journal, and counted."""
    application = Application(
        load_configuration(environment={"HOME": str(tmp_path)}, working_directory=tmp_path)
    )
    async with Model("scripted:echo", application=application) as model:
        await count_calls(model, tmp_path / "warm.jsonl", 8)
        costs = []
        for number in range(3):  # a busy disk makes the loop wake more often
            few = await count_calls(model, tmp_path / f"few{number}.jsonl", 16)
            many = await count_calls(model, tmp_path / f"many{number}.jsonl", 116)
            costs.append((many - few) / 100)

    assert min(costs) <= CALLS_LIMIT
