"""AG-UI as a face of the agents daemon: runs, approvals, threads, and what breaks off."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.faces.facing import FAIL, LOOK, PAY, facing, facing_friends, think
from support.flows.flow_tasks import compose_task
from support.gateways.authorizers import KeyAuthorizer
from support.runs.acting import invoke, say
from support.runs.scripting import hold_slow_answers
from vibe_llms.invocables import produce_invoker

pytestmark = pytest.mark.slow

THREAD = "thread 1/..\n\ndata: {}"
DONE = [say("Done, all is paid.")]


def ask(identity: str, text: str) -> dict[str, Any]:
    """Return a message of the user."""
    return {"id": identity, "role": "user", "content": text}


def compose(spec: Any, *messages: Any, **more: Any) -> dict[str, Any]:
    """Return the input of a run."""
    return {
        "threadId": THREAD,
        "runId": "r",
        "messages": list(messages),
        "forwardedProps": {"run": spec},
        **more,
    }


def read_text(events: list[dict[str, Any]], kind: str = "TEXT_MESSAGE_CONTENT") -> str:
    """Return all text of a kind."""
    return "".join(each["delta"] for each in events if each["type"] == kind)


def answer(events: list[dict[str, Any]], **payload: Any) -> list[dict[str, Any]]:
    """Return the answers to the interrupts at the end of a run."""
    interrupts = events[-1]["outcome"]["interrupts"]
    return [
        {"interruptId": each["id"], "status": "resolved", "payload": payload} for each in interrupts
    ]


async def test_a_run_waits_for_an_approval_and_continues(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ag-ui", PAY, LOOK, FAIL) as face:
        spec = face.write_script(
            [think("Hm."), say("I look."), invoke("look"), invoke("fail")],
            [invoke("pay", to="Ann")],
            DONE,
        )
        first = await face.post(compose(spec, ask("1", "Pay Ann.")))
        assert read_text(first) == "I look."
        assert read_text(first, "REASONING_MESSAGE_CONTENT") == "Hm."
        results = [each for each in first if each["type"] == "TOOL_CALL_RESULT"]
        assert {str(each["content"])[:14] for each in results} == {
            "fail failed: V",
            "[{'type': 'tex",
        }
        calls = [each["toolCallId"] for each in first if each["type"] == "TOOL_CALL_START"]
        (interrupt,) = first[-1]["outcome"]["interrupts"]
        assert interrupt["toolCallId"] == calls[-1]
        assert interrupt["metadata"]["vibe"]["arguments"] == '{"to":"Ann"}'
        resume = answer(first, decision="allow")
        second = await face.post(compose(spec, ask("1", "Pay Ann."), resume=resume))
        (result,) = [each for each in second if each["type"] == "TOOL_CALL_RESULT"]
        assert (result["toolCallId"], result["content"]) == (calls[-1], "paid Ann")
        assert read_text(second) == "Done, all is paid."
        assert second[-1]["outcome"] == {"type": "success"}
        late = await face.post(compose(spec, ask("1", "Pay Ann."), resume=resume))
        assert [each["name"] for each in late if each["type"] == "CUSTOM"] == ["vibe.loss"]


@pytest.mark.parametrize(
    ("payload", "result"),
    [
        ({"decision": "deny", "reason": "Too much."}, "Too much."),
        ({"decision": "edit", "arguments": {"to": "Bob"}}, "paid Bob"),
    ],
)
async def test_a_call_is_denied_or_edited(tmp_path: Path, payload: Any, result: str) -> None:
    async with facing(tmp_path, "/ag-ui", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], DONE)
        first = await face.post(compose(spec, ask("1", "Pay Ann.")))
        second = await face.post(compose(spec, resume=answer(first, **payload)))
        (told,) = [each for each in second if each["type"] == "TOOL_CALL_RESULT"]
        assert result in told["content"]
        assert read_text(second) == DONE[0]["text"]


async def test_a_thread_is_a_conversation_and_a_message_counts_once(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ag-ui") as face:
        spec = face.write_script([say("One.")], [say("Two.")], [say("Three.")])
        context = [{"description": "Weather", "value": "Rain."}]
        assert read_text(await face.post(compose(spec, ask("1", "A"), context=context))) == "One."
        again = await face.post(compose(spec, ask("1", "A"), context=context))
        assert [each["type"] for each in again] == [
            "RUN_STARTED",
            "MESSAGES_SNAPSHOT",
            "RUN_FINISHED",
        ]
        told = again[1]["messages"]
        assert [each["role"] for each in told] == ["system", "user", "assistant"]
        more = [*told, ask("2", "B")]  # with the ids that the snapshot has
        assert read_text(await face.post(compose(spec, *more, context=context))) == "Two."
        other = await face.post(compose(spec, ask("3", "C")))  # knows nothing of all this
        (snapshot,) = [each for each in other if each["type"] == "MESSAGES_SNAPSHOT"]
        texts = [each["content"] for each in snapshot["messages"]]
        assert texts == ["Rain.", "A", "One.", "B", "Two.", "C"]
        assert read_text(other) == "Three."
        (row,) = (await face.daemon.ask("GET", "/conversations"))[1]["data"]
        by_id = compose(spec, ask("4", "D"), threadId=row["id"])
        assert read_text(await face.post(by_id)) == "One."  # the script begins again


async def test_an_id_names_one_message(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ag-ui") as face:
        spec = face.write_script(DONE)
        await face.post(compose(spec, ask("1", "A")))
        status, told = await face.refuse(compose(spec, ask("1", "B"), ask("2", "C")))
        assert (status, "another text" in told["error"]["message"]) == (400, True)


@pytest.mark.parametrize(("origin", "is_allowed"), [("good.example", True), ("x.example", False)])
async def test_a_page_of_a_named_site_reads_the_stream(
    tmp_path: Path, origin: str, is_allowed: bool
) -> None:
    async with facing(tmp_path, "/ag-ui", hosts=["https://good.example"]) as face:
        headers = {"Origin": f"https://{origin}", "Access-Control-Request-Method": "POST"}
        async with face.daemon.session.options(face.url, headers=headers) as answer:
            assert (answer.status == 204) == is_allowed
        del headers["Access-Control-Request-Method"]
        body = compose(face.write_script(DONE), ask("1", "A"))
        async with face.daemon.session.post(face.url, json=body, headers=headers) as answer:
            assert answer.status == (200 if is_allowed else 403)
            allowed = answer.headers.get("Access-Control-Allow-Origin")
            assert allowed == (f"https://{origin}" if is_allowed else None)


async def test_what_a_run_cannot_use_is_told(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ag-ui") as face:
        body = compose(
            face.write_script(DONE),
            {"id": "0", "role": "assistant", "toolCalls": []},
            ask("1", "A"),
            tools=[{"name": "blink", "description": ""}],
            state={"color": "red"},
        )
        body["forwardedProps"]["other"] = 1
        told = await face.post(body)
        losses = [each["value"]["reason"] for each in told if each["type"] == "CUSTOM"]
        assert [any(word in loss for loss in losses) for word in ("tools", "state", "other")]
        assert len(losses) == 4


async def test_a_run_goes_on_without_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go = asyncio.Event()
    hold_slow_answers(monkeypatch, lambda _: may_go.is_set())
    async with facing(tmp_path, "/ag-ui", LOOK) as face:
        spec = face.write_script([say("First."), invoke("look")], [say("Second.")])
        script = tmp_path / "script.toml"
        script.write_text(
            script.read_text("utf-8").replace(
                "[[responses]]", "[[responses]]\ndelay_seconds = 0.001", 1
            ),
            "utf-8",
        )
        body = compose(spec, ask("1", "A"))
        async with face.daemon.session.post(face.url, json=body) as stream:
            await stream.content.readuntil(b"STEP_STARTED")
        returning = [asyncio.create_task(face.post(body)) for _ in range(2)]
        await asyncio.sleep(0.05)
        may_go.set()
        for events in await asyncio.gather(*returning):
            assert read_text(events) == "First.Second."
            assert events[-1]["outcome"] == {"type": "success"}
        (run,) = (await face.daemon.ask("GET", "/runs"))[1]["data"]
        assert run["answers"] == 2


async def test_a_client_that_leaves_during_a_call_comes_back_to_its_result(tmp_path: Path) -> None:
    may_go, calls = asyncio.Event(), []

    async def dig() -> str:
        """Digs."""
        calls.append(1)
        await may_go.wait()
        return "gold"

    async with facing(tmp_path, "/ag-ui", produce_invoker(dig)) as face:
        body = compose(face.write_script([invoke("dig")], DONE), ask("1", "Dig."))
        async with face.daemon.session.post(face.url, json=body) as stream:
            await stream.content.readuntil(b"TOOL_CALL_END")
        returning = [asyncio.create_task(face.post(body)) for _ in range(2)]
        await asyncio.sleep(0.05)
        may_go.set()
        for events in await asyncio.gather(*returning):
            (result,) = [each for each in events if each["type"] == "TOOL_CALL_RESULT"]
            (call,) = [each for each in events if each["type"] == "TOOL_CALL_START"]
            assert (result["content"], result["toolCallId"]) == ("gold", call["toolCallId"])
            assert read_text(events) == DONE[0]["text"]
        assert calls == [1]


async def test_each_event_of_a_run_that_rests_is_followed_to_its_end(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ag-ui", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], DONE)
        await face.post(compose(spec, ask("1", "Pay.")))
        (run,) = (await face.daemon.ask("GET", "/runs"))[1]["data"]
        await face.daemon.ask("POST", f"/runs/{run['id']}/detach")  # adds an event while it waits
        again = await face.post(compose(spec, ask("1", "Pay.")))
        assert again[-1]["outcome"]["type"] == "interrupt"
        more = await face.post(compose(spec, ask("1", "Pay."), ask("2", "Hurry.")))
        assert more[-1]["outcome"]["type"] == "interrupt"


async def test_a_stop_and_a_failure_end_the_stream(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ag-ui", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], DONE)
        await face.post(compose(spec, ask("1", "A")))
        (run,) = (await face.daemon.ask("GET", "/runs"))[1]["data"]
        await face.daemon.ask("POST", f"/runs/{run['id']}/stop", {"reason": "Enough."})
        stopped = await face.post(compose(spec, ask("1", "A")))
        assert stopped[-1]["outcome"] == {"type": "cancelled"}
        assert stopped[-1]["result"]["detail"] == "Enough."
        spec = face.write_script([invoke("pay", to="A")], limits={"run_steps": 1})
        limited = await face.post(compose({**spec, "ensembles": []}, ask("1", "A"), threadId="l"))
        assert (limited[-1]["type"], limited[-1]["code"]) == ("RUN_ERROR", "run_steps")


async def test_a_flow_tells_its_nodes(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ag-ui") as face:
        task = compose_task('START --> P0["Ask it"] --> END', "42")
        told = await face.post(compose({"task": task}))
        steps = [each["stepName"] for each in told if each["type"] == "STEP_STARTED"]
        assert steps == ["P0, visit 1.0"]
        assert read_text(told)
        assert told[-1]["outcome"] == {"type": "success"}


@pytest.mark.parametrize(
    "change",
    [
        {"threadId": 1},
        {"threadId": ""},
        {"threadId": "x" * 1_001},
        {"runId": None},
        {"messages": None},
        {"messages": []},
        {"messages": [1]},
        {"messages": [{"id": "1", "role": "user", "content": 5}]},
        {"messages": [{"id": "1", "role": "king", "content": "x"}]},
        {"messages": [ask("1", "  ")]},
        {"messages": [ask("1", "A"), ask("1", "B")]},
        {"resume": [{"interruptId": "x", "status": "resolved", "payload": {"decision": []}}]},
        {"forwardedProps": {"run": []}},
        {"forwardedProps": {"run": {"attached": 5}}},
        {"forwardedProps": {"run": {"model": "nobody:x"}}},
        {"messages": [{"id": "1", "role": "user", "content": [{"type": ["image"], "source": {}}]}]},
    ],
)
async def test_an_invalid_input_is_refused(tmp_path: Path, change: Any) -> None:
    async with facing(tmp_path, "/ag-ui") as face:
        body = {**compose(face.write_script(DONE), ask("1", "A")), **change}
        status, told = await face.refuse(body)
        assert 400 <= status < 500, told
        assert told["error"]["message"]
        assert (await face.daemon.ask("GET", "/runs"))[1]["data"] == []


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "data", "value": "!", "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "file:///etc/passwd"}},
        {"type": "image", "source": {"type": "file", "value": "file-1"}},
        {"type": "image", "source": []},
        {"type": "text"},
        {"type": "binary", "data": ""},
    ],
)
async def test_an_invalid_part_is_refused(tmp_path: Path, part: Any) -> None:
    async with facing(tmp_path, "/ag-ui") as face:
        message = {"id": "1", "role": "user", "content": [part]}
        assert (await face.refuse(compose(face.write_script(DONE), message)))[0] == 400


async def test_threads_of_others_are_other_threads(tmp_path: Path) -> None:
    async with facing_friends(tmp_path, "/ag-ui") as (ann, bob):
        spec = ann.write_script(DONE)
        await ann.post(compose(spec, ask("1", "Secret.")))
        (run,) = (await ann.daemon.ask("GET", "/runs", **ann.headers))[1]["data"]
        for thread in (THREAD, run["id"]):
            told = await bob.post(compose(spec, ask(thread, "Hello."), threadId=thread))
            assert "Secret." not in str(told)
            assert "MESSAGES_SNAPSHOT" not in {each["type"] for each in told}


async def test_a_key_is_required_where_the_daemon_asks_for_one(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ag-ui", authorizer=KeyAuthorizer()) as face:
        assert (await face.refuse(compose({}, ask("1", "A"))))[0] == 401


@pytest.mark.clients
async def test_the_official_models_read_each_event(tmp_path: Path) -> None:
    from ag_ui.core import Event
    from pydantic import TypeAdapter

    read: Any = TypeAdapter(Event).validate_python
    async with facing(tmp_path, "/ag-ui", PAY, LOOK, FAIL) as face:
        spec = face.write_script(
            [think("Hm."), say("I look."), invoke("look"), invoke("fail")],
            [invoke("pay", to="Ann")],
            DONE,
        )
        picture = {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}
        content = [{"type": "text", "text": "Look."}, {"type": "image", "source": picture}]
        message = {"id": "1", "role": "user", "content": content}
        first = await face.post(compose(spec, message))
        second = await face.post(compose(spec, resume=answer(first, decision="allow")))
        third = await face.post(compose(spec))
        limits = {"run_steps": 1}
        failed = await face.post(compose({**spec, "limits": limits}, ask("2", "B"), threadId="f"))
        for event in (*first, *second, *third, *failed):
            parsed = read(event)
            known = {*type(parsed).model_fields}
            aliases = {field.alias or name for name, field in type(parsed).model_fields.items()}
            assert {*event} <= known | aliases, event
        assert {"MESSAGES_SNAPSHOT", "RUN_ERROR", "REASONING_START", "TOOL_CALL_RESULT"} <= {
            each["type"] for each in (*first, *second, *third, *failed)
        }
