"""Steps of runs over HTTP: those that changed, in pages, and only for the owner of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.daemons.run_daemons import serving
from support.flows.flow_tasks import compose_task
from support.gateways.authorizers import FriendAuthorizer
from support.runs.acting import invoke, say
from support.runs.planted import Planting
from vibe_llms.agents.remote import connect
from vibe_llms.exceptions import ConverseError
from vibe_llms.invocables import produce_invoker


def look(place: str) -> str:
    """Looks."""
    return place


async def test_steps_are_read_in_pages_and_as_they_change(tmp_path: Path) -> None:
    async with serving(tmp_path, produce_invoker(look)) as daemon:
        run_id = await daemon.start([say("I look."), invoke("look", place="x")], [say("Done.")])
        await daemon.watch(run_id)
        status, whole = await daemon.ask("GET", f"/runs/{run_id}/steps")
        assert status == 200
        assert [step["kind"] for step in whole["data"]] == ["model", "tool", "model"]
        assert {step["state"] for step in whole["data"]} == {"done"}
        _, first = await daemon.ask("GET", f"/runs/{run_id}/steps?limit=2")
        assert (len(first["data"]), first["has_more"]) == (2, True)
        _, rest = await daemon.ask("GET", f"/runs/{run_id}/steps?after={first['sequence']}")
        assert first["data"] + rest["data"] == whole["data"]
        assert (rest["sequence"], rest["has_more"]) == (whole["sequence"], False)
        _, nothing = await daemon.ask("GET", f"/runs/{run_id}/steps?after={whole['sequence']}")
        assert nothing["data"] == []
        for query in ("after=-1", "after=x", "after=", "limit=0", f"after={10**20}"):
            status, _ = await daemon.ask("GET", f"/runs/{run_id}/steps?{query}")
            assert status == 400, query
        status, _ = await daemon.ask("GET", "/runs/nobody/steps")
        assert status == 404


async def test_a_client_reads_all_steps_of_a_long_run(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        run = Planting("a" * 32)
        run.ask("Look around.")
        for number in range(130):
            run.call(f"look{number}", "seen")
        run.end()
        run.plant(daemon.premises.store)
        async with connect(daemon.url) as runs:
            page = await runs.survey_steps(run.identity)
            local = await daemon.premises.runs.survey_steps(run.identity)
            assert page.data == local.data
            assert [each.number for each in page.data] == sorted(each.number for each in page.data)
            assert len(page.data) == 260
            assert not page.has_more
            late = await runs.survey_steps(run.identity, after=page.sequence)
            assert (late.data, late.sequence) == ((), page.sequence)
            part = await runs.survey_steps(run.identity, limit=7)
            assert (len(part.data), part.has_more) == (7, True)


async def test_steps_of_others_do_not_exist_nor_those_within_their_visits(tmp_path: Path) -> None:
    ann, bob = ({"Authorization": f"Bearer {name}"} for name in ("ann", "bob"))
    task = compose_task("START --> P0[Draft it] --> END", "a word")
    async with serving(tmp_path, authorizer=FriendAuthorizer()) as daemon:
        _, run = await daemon.ask("POST", "/runs", {"task": task}, **ann)
        async with connect(daemon.url, key="ann") as runs:
            await runs.wait(run["id"])
            steps = {each.name: each for each in (await runs.survey_steps(run["id"])).data}
            (inner,) = steps["P0"].conversations
            (answer,) = (await runs.survey_steps(inner)).data
            assert (answer.kind, answer.state) == ("model", "done")
        async with connect(daemon.url, key="bob") as runs:
            for identity in (run["id"], inner):
                with pytest.raises(ConverseError, match="Unknown"):
                    await runs.survey_steps(identity)
                status, _ = await daemon.ask("GET", f"/runs/{identity}/steps", **bob)
                assert status == 404
