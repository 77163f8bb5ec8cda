"""What a run has used counts when it is taken up, and some errors leave it to be taken up."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from acting import Stage, invoke, say, script
from vibe_llms.engine import generating
from vibe_llms.engine.limits import Readings
from vibe_llms.engine.states import Reason
from vibe_llms.exceptions import StoreError, TransportError
from vibe_llms.limits import Limits
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.runs.journals import ConversationJournal


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


class _DiedError(BaseException):
    """The end of the process."""


async def test_an_answer_that_came_just_before_the_end_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was billed, though the log could not say so: it counts towards the limits."""

    async def die(*arguments: object, **more: object) -> None:
        raise _DiedError

    used = {"usage": {"input_tokens": 7, "output_tokens": 2}}
    turns = [invoke("look")], [say("Done.")]
    stage = Stage(
        script(*turns, **used), [look], price=lambda origin: 0.5 * (origin.model == "test")
    )
    with monkeypatch.context() as patched:
        patched.setattr(generating.Generator, "_finish", die)
        with pytest.raises(_DiedError):
            await stage.act(spent=Readings())
    acted = await stage.act(limits=Limits(run_steps=4), spent=Readings(steps=3))
    assert (acted.ending.limit, acted.ending.readings.steps) == ("run_steps", 4)
    assert "generation.finished" in acted.kinds
    assert (acted.ending.readings.tokens, acted.ending.readings.cents) == (9, 0.5)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
async def test_an_answer_waits_for_a_disk_that_is_full(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """Where a run can be gone on with it is not thrown away, as it was paid for."""
    plain, faults = ConversationJournal.append, 2

    async def append(self: ConversationJournal, canisters: Sequence[AnyCanister]) -> None:
        nonlocal faults
        if faults:
            faults -= 1
            raise StoreError(detail="no room") from OSError(code, "")
        await plain(self, canisters)

    monkeypatch.setattr(generating, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(ConversationJournal, "append", append)
    stage = Stage(script([say("Done.")]))
    acted = await stage.act(passing=(TransportError,))
    if code == errno.EIO:
        assert acted.ending.reason is Reason.FAILED
        return
    assert (acted.words, acted.ending.reason) == (["Hello", "Done."], Reason.ANSWERED)
    assert (acted.kinds.count("generation.started"), faults) == (1, 0)
    assert "an answer waits to be written: no room" in caplog.text
