"""kill -9 of a host in the middle of its runs: the next one goes on, and nothing is done anew."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.flows.flow_tasks import compose_task
from support.quality.properties import STEP
from support.runs.acting import invoke, say
from support.runs.hosted import Premises
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.invocables.approvals import allow, deny
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, UserCanister

VICTIM = Path(__file__).with_name("host_victims.py")
NOTES, RUNS, DEATHS = 6, 3, max(2, 4 // STEP)


@pytest.mark.slow
@pytest.mark.samples
async def test_every_run_goes_on_from_its_last_step(tmp_path: Path) -> None:
    premises, dice = Premises(tmp_path), random.Random(1)
    premises.runs.host = None  # only the other process performs
    turns = [[invoke("note", f"n{number}", number=number)] for number in range(NOTES)]
    spec = premises.spec(*turns, [say("Done.")])
    found = [
        await premises.runs.start(spec, [UserCanister(f"Do {number}.")], key=f"{number}")
        for number in range(RUNS)
    ]
    ids = [each.id for each in found]
    for _ in range(DEATHS):
        await _host_until(premises, ids, dice.randint(3, 12))
    await _host_until(premises, ids, None)
    for run_id in ids:
        summary = await premises.runs.find(run_id)
        assert (summary.state, summary.reason) == ("ended", "answered"), summary
        canisters = premises.store.read(run_id).canisters
        calls = [each for each in canisters if isinstance(each, InvocationCanister)]
        results = [each for each in canisters if isinstance(each, ResultCanister)]
        assert [each.invocation_id for each in calls] == [f"n{n}" for n in range(NOTES)]
        assert [each.invocation_id for each in results] == [f"n{n}" for n in range(NOTES)]
    noted = Counter((tmp_path / "noted").read_text().split())
    assert set(noted.values()) <= set(range(RUNS, RUNS * (DEATHS + 1) + 1))


async def _host_until(premises: Premises, ids: list[str], events: int | None) -> None:
    """Lets another process host until so many more events are written, or all has ended."""
    before = sum(len(premises.read_kinds(run_id)) for run_id in ids)
    process = await asyncio.create_subprocess_exec(sys.executable, VICTIM, premises.folder)
    try:
        async with asyncio.timeout(60):
            while True:
                states = {(await premises.runs.find(run_id)).state for run_id in ids}
                now = sum(len(premises.read_kinds(run_id)) for run_id in ids)
                if states == {"ended"} or (events is not None and now >= before + events):
                    return
                await asyncio.sleep(0.01)
    finally:
        process.kill()
        await process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "is_wanted"),
    [
        ("conversation", True),
        ("flow", False),
        ("conversation", False),
        ("flow", True),
    ],
)
async def test_what_may_have_happened_is_asked_about_and_not_repeated(
    tmp_path: Path, kind: str, is_wanted: bool
) -> None:
    """Killed between an effect and its record, nobody knows: a person says what is to be done."""
    premises = Premises(tmp_path)
    premises.runs.host = None
    if kind == "flow":
        task = compose_task("START --> T[/pay/] --> P0 --> END", "yes")
        summary = await premises.runs.start(RunSpec(task=task, ensembles=("any",)))
    else:
        spec = premises.spec([invoke("pay")], [say("Done.")])
        summary = await premises.runs.start(spec, [UserCanister("Pay.")])
    first = await asyncio.create_subprocess_exec(sys.executable, VICTIM, tmp_path)
    async with asyncio.timeout(60):
        assert await first.wait() == -signal.SIGKILL
    assert (await premises.runs.find(summary.id)).state == "broken_off"
    second = await asyncio.create_subprocess_exec(sys.executable, VICTIM, tmp_path)
    try:
        assert (await premises.wait(summary.id, "waiting")).waiting == 1
        (waiting,) = await premises.runs.survey_approvals(summary.id)
        assert waiting.request.in_doubt
        assert (tmp_path / "paid").read_text() == "paid\n"
        answer = allow(waiting.request) if is_wanted else deny(waiting.request, "it was paid")
        await premises.runs.approve(summary.id, answer)
        ended = await premises.wait(summary.id, "ended")
    finally:
        second.kill()
        await second.wait()
    assert ended.reason in ("answered", "ended", "failed"), ended
    assert (tmp_path / "paid").read_text() == "paid\n" * (2 if is_wanted else 1)
