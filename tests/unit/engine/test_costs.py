"""What a turn costs, counted: a clock says something else on every machine."""

from __future__ import annotations

import sys
from types import FrameType

from acting import invoke, say, script
from vibe_llms import Engine
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.invocables import produce_invoker

CALLS_LIMIT = 740
"""Calls of Python functions in a turn, asking the model included: 712 with Python 3.11, which calls
one for each comprehension."""


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

    calls = (await count_calls(40) - await count_calls(10)) / 30

    assert calls <= CALLS_LIMIT
