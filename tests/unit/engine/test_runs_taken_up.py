"""What a run has used counts when it is taken up, and some errors leave it to be taken up."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from support.runs.acting import Stage, invoke, say, script
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs import log as run_logs
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.engine import generating
from vibe_llms.engine.limits import Readings
from vibe_llms.engine.states import Reason
from vibe_llms.exceptions import StoreError, TransportError
from vibe_llms.foundation.limits import Limits
from vibe_llms.instruments.engines import Engine, RunOutcome
from vibe_llms.logs.disk import Disk
from vibe_llms.messages.canisters import UserCanister


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
        await stage.act(temporary_errors=(TransportError,))
    assert "run.ended" not in [each.event.type for each in stage.log.read()]
    is_down = False
    acted = await stage.act(temporary_errors=(TransportError,))
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


class FaultyDisk(Disk):
    """Fails so many times, from one of its writes on."""

    def __init__(self, code: int, after: int, times: int) -> None:
        self.code, self.after, self.times = code, after, times

    def write(self, descriptor: int, data: bytes) -> None:
        self.after -= 1
        if self.after < 0 < self.times:
            self.times -= 1
            raise OSError(self.code, "no room")
        super().write(descriptor, data)


@pytest.mark.slow
@pytest.mark.parametrize("after", range(4, 16))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
async def test_whatever_is_written_waits_for_a_disk_that_is_full(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
    after: int,
) -> None:
    """Where a run can be gone on with, nothing that was paid for is thrown away."""
    monkeypatch.setattr(run_logs, "_FULL_SECONDS", 0)
    disk = FaultyDisk(code, after, times=3)
    store = DirectoryStore(tmp_path, disk=disk)
    model = script([invoke("look")], [say("Done.")])
    conversation = Conversation(canisters=[UserCanister("Look!")])
    outcome: RunOutcome | None = None
    with suppress(StoreError):
        run = Engine(model, [look], store=store).prepare(
            conversation, temporary_errors=(TransportError,)
        )
        outcome = await run.perform()
    if disk.times == 3:
        assert after > 10  # it needs no more writes than that
        return
    if code == errno.EIO:
        assert outcome is None or outcome.reason is Reason.FAILED
        return
    assert outcome is not None
    assert (outcome.text, outcome.reason, disk.times) == ("Done.", Reason.ANSWERED, 0)
    kinds = [each.event.type for each in store.open_log(conversation.id).read()]
    assert [kinds.count(each) for each in ("generation.started", "run.ended")] == [2, 1]
    assert "a run waits for space" in caplog.text
