"""Reading and checking a diagram takes as many steps as it has nodes, times a constant."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from support.diagrams.large_diagrams import SHAPES, compose_task
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.mermaid import parse_diagram


def count_calls(step: Callable[[str], object], text: str) -> int:
    """Returns how many functions are called, those of C among them."""
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        step(text)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_calls_grow_as_nodes(shape: str) -> None:
    """Eight times the nodes take about eight times the calls, to read them and to check them."""
    few, many = (SHAPES[shape](count) for count in (50, 400))

    for step in (parse_diagram, lambda text: check_task(examine_task(compose_task(text)))):
        assert count_calls(step, many) < 9 * count_calls(step, few)
