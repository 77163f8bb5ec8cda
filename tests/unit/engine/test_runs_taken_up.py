"""What a run has used counts when it is taken up, and some errors leave it to be taken up."""

from __future__ import annotations

import pytest

from acting import Stage, invoke, say, script
from vibe_llms.engine.limits import Readings
from vibe_llms.engine.states import Reason
from vibe_llms.exceptions import TransportError
from vibe_llms.limits import Limits


def look() -> str:
    """Looks."""
    return "nothing"


async def test_what_was_spent_counts_towards_the_limits() -> None:
    stage = Stage(script([invoke("look")], [say("Done.")]), [look])
    acted = await stage.act(limits=Limits(run_steps=3), spent=Readings(steps=2, invocations=1))
    assert acted.ending.reason is Reason.LIMIT
    assert acted.ending.limit == "run_steps"
    assert acted.ending.readings.steps == 3
    assert acted.ending.readings.invocations == 2


async def test_seconds_that_were_spent_are_not_had_again() -> None:
    stage = Stage(script([say("Done.")]))
    acted = await stage.act(limits=Limits(run_seconds=5), spent=Readings(seconds=5.0))
    assert acted.ending.limit == "run_seconds"
    assert "generation.started" not in acted.kinds


async def test_an_error_that_passes_does_not_end_the_run() -> None:
    model = script([say("Done.")])
    play, is_down = model.send, True

    async def send(native, request, *, streaming):  # type: ignore[no-untyped-def]
        if is_down:
            raise TransportError(detail="Nobody is there.")
        return await play(native, request, streaming=streaming)

    model.send = send
    stage = Stage(model)
    with pytest.raises(TransportError):
        await stage.act(passing=(TransportError,))
    assert "run.ended" not in [each.event.type for each in stage.log.read()]
    is_down = False
    acted = await stage.act(passing=(TransportError,))
    assert acted.words == ["Hello", "Done."]
