"""Runs over HTTP: asked for, watched, approved, stopped and left alone, each by its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.daemons.run_daemons import read_frames, serving
from support.flows.flow_tasks import compose_task
from support.gateways.authorizers import FriendAuthorizer, KeyAuthorizer
from support.runs.acting import invoke, say
from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.events.codec import decode_event
from vibe_llms.invocables import produce_invoker

DONE = [say("Done.")]


async def test_what_is_told_is_the_log(tmp_path: Path) -> None:
    all_have_answered = asyncio.Event()

    async def pay() -> str:
        """Pays, when nothing more is said: what comes behind a run's end is told nobody by it."""
        await all_have_answered.wait()
        return "paid"

    paying = produce_invoker(pay, effect="once", needs_approval=True)
    async with serving(tmp_path, paying) as daemon:
        run_id = await daemon.start([invoke("pay")], DONE)
        watching = asyncio.create_task(daemon.watch(run_id))
        while True:
            _, told = await daemon.ask("GET", f"/runs/{run_id}/approvals")
            if told["data"]:
                break
            await asyncio.sleep(0.01)
        request = told["data"][0]["request"]
        said = {"digest": request["digest"], "decision": "allow"}
        path = f"/runs/{run_id}/approvals"
        answers = await asyncio.gather(*(daemon.ask("POST", path, said) for _ in range(3)))
        assert sorted(status for status, _ in answers) == [200, 409, 409]
        all_have_answered.set()
        frames = await watching
        logged = daemon.premises.store.open_log(run_id).read()
        assert [number for number, _, _ in frames] == [each.sequence for each in logged]
        events = [decode_event(json.dumps(line["event"]).encode()) for _, _, line in frames]
        assert events == [each.event for each in logged]
        words = [word for _, word, _ in frames]
        assert words[0] == "run.requested"
        assert words[-1] == "run.completed"
        assert {"step.started", "tool.completed"} <= {*words}
        for after in range(len(frames)):
            assert await daemon.watch(run_id, str(after)) == frames[after:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "status"),
    [("x", 400), ("-1", 400), ("1.5", 400), ("\u0663", 400), ("99999", 409), ("9" * 30, 400)],
)
async def test_a_number_that_is_none_is_refused(tmp_path: Path, given: str, status: int) -> None:
    async with serving(tmp_path) as daemon:
        run_id = await daemon.start(DONE)
        frames = await daemon.watch(run_id)
        found, told = await daemon.ask("GET", f"/runs/{run_id}/events?after={given}")
        assert found == status
        assert told["error"]["stage"] == "frame"
        if status == 409:
            assert str(len(frames)) in told["error"]["message"]


async def test_a_path_that_is_none_is_no_fault_of_a_provider(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        for path in ("/runs/any/nothing", "/nothing"):
            status, told = await daemon.ask("POST", path, {})
            assert status == 404
            assert told["error"]["message"].startswith("Unknown path")


async def test_a_key_asks_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        ids = await asyncio.gather(*(daemon.start(DONE, Idempotency_Key="k") for _ in range(5)))
        assert len({*ids}) == 1
        spec = daemon.premises.spec(DONE).export()
        status, _ = await daemon.ask(
            "POST", "/runs", {**spec, "input": "Other."}, Idempotency_Key="k"
        )
        assert status == 409


async def test_others_are_told_that_there_is_none(tmp_path: Path) -> None:
    ann, bob = {"Authorization": "Bearer ann"}, {"Authorization": "Bearer bob"}
    async with serving(tmp_path, authorizer=FriendAuthorizer()) as daemon:
        run_id = await daemon.start(DONE, **ann)
        assert (await daemon.ask("GET", f"/runs/{run_id}", **ann))[0] == 200
        told = []
        for where in (run_id, "nobody"):
            for method, path, body in (
                ("GET", "", None),
                ("DELETE", "", None),
                ("GET", "/events", None),
                ("GET", "/approvals", None),
                ("GET", "/flow", None),
                ("POST", "/approvals", {"digest": "d", "decision": "allow"}),
                ("POST", "/messages", {"content": "Hello"}),
                ("POST", "/stop", {}),
                ("POST", "/resume", None),
                ("POST", "/fork", None),
            ):
                status, answer = await daemon.ask(method, f"/runs/{where}{path}", body, **bob)
                assert status == 404, (path, answer)
                told.append(json.dumps(answer).replace(where, "*"))
        assert told[:10] == told[10:]
        assert (await daemon.ask("GET", "/runs", **bob))[1] == {"data": [], "has_more": False}


async def test_where_a_flow_stands_is_told_before_it_begins_and_after(tmp_path: Path) -> None:
    diagram = """START --> P0["Ask it"] --> C{ok?}
        C -->|good| END
        C -->|bad| P1 --> P0
    """
    async with serving(tmp_path) as daemon:
        condition = {"evaluation_type": "CONTAINS", "expected_value": "42", "description": "42"}
        spec = RunSpec(task=compose_task(diagram, "good", "bad", conditions=[condition]))
        idle = LocalRuns(daemon.premises.store, daemon.premises.runs.application)  # performs none
        waits = await idle.outline((await idle.start(spec)).id)
        assert {each.state for each in waits.nodes} == {"unreached"}
        assert (waits.goal, waits.response, tuple(waits.verdicts)) == ("Find out.", "", ())
        _, run = await daemon.ask("POST", "/runs", spec.export())
        await daemon.watch(run["id"])
        status, told = await daemon.ask("GET", f"/runs/{run['id']}/flow")
        assert status == 200
        nodes = {each["id"]: each for each in told["nodes"]}
        assert (nodes["P0"]["title"], nodes["P0"]["visits"]) == ("Ask it", 1)
        states = {name: each["state"] for name, each in nodes.items()}
        assert states == {"START": "done", "P0": "done", "C": "done", "END": "done"} | {
            "P1": "unreached"
        }
        said = f"/conversations/{nodes['P0']['conversation_id']}"
        assert (await daemon.ask("GET", said))[1]["count"] == 2
        assert "flow-unreached" in told["diagram"]
        assert told["response"] == "good"
        (verdict,) = told["verdicts"]
        assert (verdict["description"], verdict["is_met"]) == ("42", False)
        assert "does not contain '42'" in verdict["evidence"]
        run_id = await daemon.start(DONE)
        assert (await daemon.ask("GET", f"/runs/{run_id}/flow"))[0] == 409


async def test_runs_come_in_pages(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        ids = {await daemon.start(DONE) for _ in range(5)}
        for run_id in ids:
            await daemon.watch(run_id)
        found, after = [], ""
        while True:
            _, page = await daemon.ask("GET", f"/runs?state=ended&limit=2{after}")
            found += [each["id"] for each in page["data"]]
            if not page["has_more"]:
                break
            after = f"&after={found[-1]}"
        assert sorted(found) == sorted(ids)
        assert (await daemon.ask("GET", "/runs?state=waiting,due"))[1]["data"] == []


@pytest.mark.parametrize("place", ["runs", "conversations"])
async def test_who_watches_is_told_of_the_end_of_it(tmp_path: Path, place: str) -> None:
    """Whatever comes under its name next, of which whoever watches then is told all."""
    async with serving(tmp_path) as daemon:
        run_id = await daemon.start(DONE, idempotency_key="k")
        told = [word for _, word, _ in await daemon.watch(run_id)]
        async with daemon.session.get(f"{daemon.url}/runs/{run_id}/events") as standing:
            assert (await daemon.ask("DELETE", f"/{place}/{run_id}"))[0] == 200
            assert await daemon.start(DONE, idempotency_key="k") == run_id
            assert [word for _, word, _ in await daemon.watch(run_id)] == told
            async with asyncio.timeout(60):
                assert read_frames(await standing.text())[-1][1] == "run.deleted"


async def test_streams_have_a_bound_and_end_with_the_daemon(tmp_path: Path) -> None:
    async with serving(tmp_path, watchers=1) as daemon:
        run_id = await daemon.start(DONE)
        async with daemon.session.get(f"{daemon.url}/runs/{run_id}/events") as standing:
            assert standing.status == 200
            assert (await daemon.ask("GET", f"/runs/{run_id}/events"))[0] == 429
            daemon.service.drain()
            with pytest.raises(aiohttp.ClientPayloadError):
                await standing.read()


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": 5},
        {"input": "", "model": "scripted:echo"},
        {"input": [{"role": "assistant", "content": "I"}]},
        {"input": "Hello", "model": "nobody:x"},
        {"input": "Hello", "modell": "scripted:echo"},
        {"input": "Hello", "limits": {"run_steps": 10**6}},
        {"input": "Hello", "ensembles": "io"},
        {"input": "Hello", "task": {}},
        {"task": {"goal": {}}},
    ],
)
async def test_what_makes_no_sense_is_refused(tmp_path: Path, body: Any) -> None:
    async with serving(tmp_path) as daemon:
        status, told = await daemon.ask("POST", "/runs", body)
        assert status == 400, told
        assert told["error"]["message"]
        assert told["error"]["type"] != "server", told
        assert [*daemon.premises.store.survey()] == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
        ({"content-type": "application/json", "origin": "http://127.0.0.1:1"}, 403),
        ({"content-type": "text/plain", "sec-fetch-site": "same-site"}, 403),
        ({"content-type": "application/json", "sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "application/json", "sec-fetch-site": "same-origin"}, 201),
    ],
)
async def test_no_page_of_another_port_begins_a_run(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    """A browser sends such a request, and only keeps its answer from the page."""
    async with serving(tmp_path) as daemon:
        spec = {**daemon.premises.spec(DONE).export(), "input": "Do it."}
        data = json.dumps(spec).encode()
        url = f"{daemon.url}/runs"
        async with daemon.session.post(url, data=data, headers=headers) as told:
            assert told.status == status, await told.text()
            assert status == 201 or "error" in await told.json()
        _, listed = await daemon.ask("GET", "/runs")
        assert len(listed["data"]) == (status == 201)


async def test_metrics_and_the_description_want_what_runs_want(tmp_path: Path) -> None:
    async with serving(tmp_path, authorizer=KeyAuthorizer()) as daemon:
        for path in ("/metrics", "/openapi.json"):
            for headers, status in (
                ({}, 401),
                ({"authorization": "Bearer ann"}, 200),
                ({"authorization": "Bearer ann", "host": "evil.example"}, 403),
                ({"authorization": "Bearer ann", "origin": "http://127.0.0.1:1"}, 403),
            ):
                async with daemon.session.get(daemon.url + path, headers=headers) as told:
                    assert told.status == status, (path, headers)
        for path in ("/healthz", "/readyz"):
            async with daemon.session.get(daemon.url + path, headers={"host": "x"}) as told:
                assert told.status == 200


async def test_models_are_listed_by_alias_with_their_abilities(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        status, told = await daemon.ask("GET", "/models")
        assert (status, told["notices"]) == (200, [])
        offers = {each["id"]: each for each in told["data"]}
        assert told["data"][0]["id"] == "play"
        assert offers["play"]["is_alias"]
        assert offers["play"]["address"].startswith("scripted:")
        assert not offers["scripted:echo"]["is_alias"]
        assert "invocations" in offers["scripted:echo"]["capabilities"]
        assert offers["scripted:echo"]["input_dollars"] is None
        _, ensembles = await daemon.ask("GET", "/ensembles")
        assert {"name": "fetch"} in ensembles["data"]


async def test_a_conversation_of_another_user_is_not_continued(tmp_path: Path) -> None:
    async with serving(tmp_path, authorizer=FriendAuthorizer()) as daemon:
        ann, bob = ({"Authorization": f"Bearer {name}"} for name in ("ann", "bob"))
        run_id = await daemon.start(DONE, **ann)
        await daemon.premises.wait(run_id, "ended", subject="ann")
        body = {"model": "scripted:echo", "input": "And?", "conversation": run_id}
        assert (await daemon.ask("POST", "/runs", body, **bob))[0] == 404
        assert (await daemon.ask("POST", "/runs", body, **ann, Idempotency_Key="k"))[0] == 409
        assert (await daemon.ask("POST", "/runs", body, **ann))[0] == 201
        assert (await daemon.ask("POST", "/runs", {**body, "conversation": 1}, **ann))[0] == 400
