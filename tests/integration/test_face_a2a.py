"""A2A as a face of the agents daemon: tasks, approvals, contexts, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.faces.facing import FAIL, LOOK, PAY, Face, facing, facing_friends, read_events, think
from support.gateways.authorizers import KeyAuthorizer
from support.gateways.gateways import wait_until
from support.runs.acting import invoke, say
from support.runs.scripting import hold_slow_answers
from vibe_llms.agents.local import LocalRuns
from vibe_llms.conversations.run_logs.log import claim_soon
from vibe_llms.runs.delivering import deliver

pytestmark = pytest.mark.slow

DONE = [say("Done.")]
VERSION = {"A2A-Version": "1.0"}


async def call(face: Face, method: str, /, **params: Any) -> Any:
    """Send a request; return its result, or its error."""
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    headers = {**VERSION, **face.headers}
    async with face.daemon.session.post(face.url, json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        if answer.content_type == "text/event-stream":
            events = read_events(await answer.read())
            assert all((each["jsonrpc"], each["id"]) == ("2.0", 7) for each in events)
            return [each["result"] for each in events]
        told = await answer.json()
        assert (told["jsonrpc"], told["id"]) == ("2.0", 7)
        return told.get("result", told.get("error"))


def compose(spec: Any, identity: str, *parts: Any, **more: Any) -> dict[str, Any]:
    """Return the parameters for sending a message."""
    listed = [{"text": each} if isinstance(each, str) else each for each in parts]
    message = {"messageId": identity, "role": "ROLE_USER", "parts": listed, **more}
    return {"message": message, "metadata": {"run": spec}}


def read_artifacts(task: Any) -> list[str]:
    """Return the texts of a task's artifacts."""
    return [each["parts"][0]["text"] for each in task["artifacts"]]


def collect(events: list[Any]) -> list[str]:
    """Return the texts of the artifacts that a client puts together from a stream."""
    artifacts: dict[str, list[str]] = {}
    for update in (each["artifactUpdate"] for each in events if "artifactUpdate" in each):
        artifact = update["artifact"]
        texts = [part["text"] for part in artifact["parts"]]
        known = artifacts.get(artifact["artifactId"], []) if update["append"] else []
        artifacts[artifact["artifactId"]] = [*known, *texts]
    return ["".join(each) for each in artifacts.values()]


async def send(face: Face, params: Any) -> Any:
    """Send a message; return its task."""
    told = await call(face, "SendMessage", **params)
    assert "task" in told, told
    return told["task"]


async def test_a_task_waits_for_an_approval_and_completes(tmp_path: Path) -> None:
    async with facing(tmp_path, "/a2a", PAY, LOOK, FAIL) as face:
        spec = face.write_script(
            [think("Hm."), say("I look."), invoke("look"), invoke("fail")],
            [invoke("pay", to="Ann")],
            DONE,
        )
        first = await call(face, "SendStreamingMessage", **compose(spec, "1", "Pay Ann."))
        assert collect(first) == ["I look."]
        task = first[0]["task"]
        status = first[-1]["statusUpdate"]["status"]
        assert status["state"] == "TASK_STATE_INPUT_REQUIRED"
        question, data = status["message"]["parts"]
        assert question["text"].startswith("Allow the call of pay?")
        (asked,) = data["data"]["approvals"]
        assert (asked["name"], asked["arguments"]) == ("pay", '{"to":"Ann"}')
        answer = {"data": {"approvals": [{"id": asked["id"], "decision": "allow"}]}}
        told = await call(face, "SendMessage", **compose(spec, "2", answer, taskId=task["id"]))
        done = told["task"]
        assert done["id"] == task["id"]
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"
        assert read_artifacts(done) == ["I look.", "Done."]
        history = json.dumps(done["history"])
        for word in ("Pay Ann.", "Hm.", "the sea", "image/png", "broken", "paid Ann"):
            assert word in history
        assert await call(face, "GetTask", id=task["id"]) == done
        assert (await call(face, "GetTask", id=task["id"], historyLength=0))["history"] == []
        over = await call(face, "SendMessage", **compose(spec, "3", "More.", taskId=task["id"]))
        assert over["code"] == -32004


async def test_a_stream_after_an_approval_has_only_what_is_new(tmp_path: Path) -> None:
    async with facing(tmp_path, "/a2a", PAY) as face:
        spec = face.write_script([say("I pay."), invoke("pay", to="Ann")], DONE)
        task = await send(face, compose(spec, "1", "Pay."))
        sent = compose(spec, "2", "allow", taskId=task["id"])
        rest = await call(face, "SendStreamingMessage", **sent)
        assert collect(rest) == ["Done."]
        assert read_artifacts(rest[0]["task"])[0] == "I pay."


@pytest.mark.parametrize(("word", "result"), [("allow", "paid Ann"), ("Deny ", "denied")])
async def test_one_word_answers_one_call(tmp_path: Path, word: str, result: str) -> None:
    async with facing(tmp_path, "/a2a", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], DONE)
        waiting = await send(face, compose(spec, "1", "Pay."))
        assert waiting["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", waiting["status"]
        sent = compose(spec, "2", word, taskId=waiting["id"])
        done = await send(face, sent)
        assert result in json.dumps(done["history"]).lower().replace("paid ann", "paid Ann")
        assert read_artifacts(done) == ["Done."]


async def test_an_answer_that_waits_in_the_inbox_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, a run that was just suspended may hold its log for a while."""
    monkeypatch.setattr("vibe_llms.runs.waiting.deliver", partial(deliver, wait_seconds=0))
    listed, survey = asyncio.Event(), LocalRuns.survey_approvals

    async def survey_approvals(runs: LocalRuns, run_id: str, **options: Any) -> Any:
        found = await survey(runs, run_id, **options)
        if not runs.store.open_inbox(run_id).is_empty:
            listed.set()
        return found

    monkeypatch.setattr(LocalRuns, "survey_approvals", survey_approvals)
    async with facing(tmp_path, "/a2a", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], DONE)
        waiting = await send(face, compose(spec, "1", "Pay."))
        store, identity = face.daemon.premises.store, waiting["contextId"]
        log = store.open_log(identity)
        claim_soon(log)
        sent = compose(spec, "2", "deny", taskId=waiting["id"])
        sending = asyncio.create_task(send(face, sent))
        await listed.wait()  # the call seems to wait, though its answer is there
        log.close()
        done = await sending
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"
        assert read_artifacts(done) == ["Done."]


async def test_a_context_has_one_task_after_the_other(tmp_path: Path) -> None:
    async with facing(tmp_path, "/a2a") as face:
        spec = face.write_script([say("One.")], [say("Two.")])
        first = await send(face, compose(spec, "1", "A"))
        again = await send(face, compose(spec, "1", "A"))
        assert again == first  # the same message is no second one
        reused = await call(face, "SendMessage", **compose(spec, "1", "Other."))
        assert reused["code"] == -32602
        context = first["contextId"]
        second = await send(face, compose(spec, "2", "B", contextId=context))
        assert second["id"] != first["id"]
        assert (read_artifacts(first), read_artifacts(second)) == (["One."], ["Two."])
        earlier = await call(face, "GetTask", id=first["id"])
        assert (earlier["artifacts"], earlier["history"]) == (first["artifacts"], first["history"])
        assert earlier["status"]["state"] == "TASK_STATE_COMPLETED"
        other = await send(face, compose(spec, "3", "C"))
        page = await call(face, "ListTasks", pageSize=1)
        assert [each["id"] for each in page["tasks"]] == [other["id"]]
        rest = await call(face, "ListTasks", pageToken=page["nextPageToken"], includeArtifacts=True)
        assert [each["id"] for each in rest["tasks"]] == [second["id"]]
        assert (read_artifacts(rest["tasks"][0]), page["totalSize"]) == (["Two."], 2)
        only = await call(face, "ListTasks", contextId=context, status="TASK_STATE_COMPLETED")
        assert [each["id"] for each in only["tasks"]] == [second["id"]]
        assert (await call(face, "ListTasks", status="TASK_STATE_FAILED"))["tasks"] == []


async def test_a_task_is_canceled_and_another_fails(tmp_path: Path) -> None:
    async with facing(tmp_path, "/a2a", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], DONE)
        task = await send(face, compose(spec, "1", "Pay."))
        canceled = await call(face, "CancelTask", id=task["id"])
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
        assert (await call(face, "CancelTask", id=task["id"]))["code"] == -32002
        assert (await call(face, "SubscribeToTask", id=task["id"]))["code"] == -32004
        limited = {**spec, "limits": {"run_steps": 1}, "ensembles": []}
        failed = await send(face, compose(limited, "2", "Pay."))
        assert failed["status"]["state"] == "TASK_STATE_FAILED"
        assert "run_steps" in failed["status"]["message"]["parts"][0]["text"]


async def test_a_client_that_waits_no_longer_for_a_cancelled_task_holds_no_stream(
    tmp_path: Path,
) -> None:
    """As long as the process that holds the log of the run is busy."""
    async with facing(tmp_path, "/a2a", PAY, watchers=1) as face:
        spec = face.write_script([invoke("pay", to="Ann")], DONE)
        task = await send(face, compose(spec, "1", "Pay."))
        log = face.daemon.premises.store.open_log(task["contextId"])
        inbox = face.daemon.premises.store.open_inbox(task["contextId"])
        assert claim_soon(log)
        canceling = asyncio.create_task(call(face, "CancelTask", id=task["id"]))
        await wait_until(lambda: not inbox.is_empty)
        canceling.cancel()
        body = {"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": task["id"]}}
        status = 429
        async with asyncio.timeout(60):
            while status == 429:
                async with face.daemon.session.post(face.url, json=body, headers=VERSION) as answer:
                    status = answer.status
        log.close()
        assert status == 200


async def test_a_task_goes_on_without_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go = asyncio.Event()
    hold_slow_answers(monkeypatch, lambda _: may_go.is_set())
    async with facing(tmp_path, "/a2a") as face:
        spec = face.write_script([say("First.")])
        script = tmp_path / "script.toml"
        slow = "[[responses]]\ndelay_seconds = 0.001"
        script.write_text(script.read_text("utf-8").replace("[[responses]]", slow, 1), "utf-8")
        sent = compose(spec, "1", "A")
        sent["configuration"] = {"returnImmediately": True}
        task = await send(face, sent)
        assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await call(face, "SubscribeToTask", id=task["id"])
        body = {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "SubscribeToTask",
            "params": {"id": task["id"]},
        }
        async with (
            face.daemon.session.post(face.url, json=body, headers=VERSION) as first,
            face.daemon.session.post(face.url, json=body, headers=VERSION) as second,
        ):
            may_go.set()
            read = [read_events(await each.read()) for each in (first, second)]
        for events in ([each["result"] for each in told] for told in read):
            assert collect(events) == ["First."]
            assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc": "2.0", "method": 5}', -32600),
        (b'{"jsonrpc": "2.0", "method": "x", "id": []}', -32601),
        (b'{"jsonrpc": "2.0", "method": "GetTask", "params": []}', -32602),
        (b'{"jsonrpc": "2.0", "method": "GetTask", "params": {"id": "x.1"}}', -32001),
        (b'{"jsonrpc": "2.0", "method": "GetTask", "params": {"id": 5}}', -32602),
        (b'{"jsonrpc": "2.0", "method": "ListTasks", "params": {"pageSize": 0}}', -32602),
        (b'{"jsonrpc": "2.0", "method": "ListTasks", "params": {"pageToken": "x"}}', -32602),
        (b'{"jsonrpc": "2.0", "method": "GetExtendedAgentCard"}', -32007),
        (b'{"jsonrpc": "2.0", "method": "CreateTaskPushNotificationConfig"}', -32003),
        (b'{"jsonrpc": "2.0", "method": "SendMessage", "params": {"message": 5}}', -32602),
        (b'{"jsonrpc": "2.0", "method": "SendMessage", "params": {"message": {}}}', -32602),
    ],
)
async def test_an_invalid_request_has_the_error_of_the_protocol(
    tmp_path: Path, body: bytes, code: int
) -> None:
    async with facing(tmp_path, "/a2a") as face:
        headers = {"content-type": "application/json", **VERSION}
        async with face.daemon.session.post(face.url, data=body, headers=headers) as answer:
            told = await answer.json()
        assert (answer.status, told["error"]["code"]) == (200, code)
        assert (await face.daemon.ask("GET", "/runs"))[1]["data"] == []


@pytest.mark.parametrize(
    "message",
    [
        {"parts": [{}]},
        {"parts": [{"raw": "!"}]},
        {"parts": [{"url": "file:///etc/passwd"}]},
        {"parts": [{"text": ""}]},
        {"parts": [{"data": {"approvals": [5]}}]},
        {"parts": [{"text": "A"}], "contextId": "unknown"},
        {"parts": [{"text": "A"}], "role": "ROLE_AGENT"},
        {"parts": [{"text": "A"}], "messageId": ""},
    ],
)
async def test_an_invalid_message_is_refused(tmp_path: Path, message: Any) -> None:
    async with facing(tmp_path, "/a2a") as face:
        params = {"message": {"messageId": "1", "role": "ROLE_USER", **message}}
        assert (await call(face, "SendMessage", **params))["code"] == -32602


async def test_a_version_and_a_key_are_required(tmp_path: Path) -> None:
    async with facing(tmp_path, "/a2a", authorizer=KeyAuthorizer()) as face:
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x.1"}}
        status, told = await face.refuse(body)
        assert (status, told["jsonrpc"]) == (401, "2.0")
        path = "/.well-known/agent-card.json?model=a:b"
        status, card = await face.daemon.ask("GET", path)
        assert status == 200
        assert card["supportedInterfaces"][0]["url"] == f"{face.url}?model=a%3Ab"
        assert card["securityRequirements"]
    async with facing(tmp_path, "/a2a") as face:
        for headers in ({}, {"A2A-Version": "0.3"}):
            face.headers = headers
            assert (await face.refuse(body))[1]["error"]["code"] == -32009


async def test_tasks_of_others_do_not_exist(tmp_path: Path) -> None:
    async with facing_friends(tmp_path, "/a2a") as (ann, bob):
        spec = ann.write_script(DONE)
        task = (await call(ann, "SendMessage", **compose(spec, "1", "Secret.")))["task"]
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            assert (await call(bob, method, id=task["id"]))["code"] == -32001
        for place in ({"taskId": task["id"]}, {"contextId": task["contextId"]}):
            told = await call(bob, "SendMessage", **compose(spec, "2", "Hello.", **place))
            assert "code" in told
        assert (await call(bob, "ListTasks"))["tasks"] == []
        mine = (await call(bob, "SendMessage", **compose(spec, "1", "Hello.")))["task"]
        assert "Secret." not in json.dumps(mine)


async def test_the_card_has_the_address_of_a_proxy_with_tls(tmp_path: Path) -> None:
    async with facing(tmp_path, "/a2a", hosts=["agents.example"]) as face:
        url = f"{face.daemon.url}/.well-known/agent-card.json"
        for proto, scheme in (("https", "https"), ("javascript", "http"), ("", "http")):
            headers = {"Host": "agents.example", "X-Forwarded-Proto": proto}
            async with face.daemon.session.get(url, headers=headers) as answer:
                (interface,) = (await answer.json())["supportedInterfaces"]
                assert "x-forwarded-proto" in answer.headers["Vary"].lower()
            assert interface["url"] == f"{scheme}://agents.example/a2a"


@attrs.define
class Judge:
    """The official client."""

    client: Any

    async def send(self, params: Any) -> list[dict[str, Any]]:
        """Send a message; return what the client heard."""
        from a2a.types import a2a_pb2
        from google.protobuf.json_format import MessageToDict, ParseDict

        request = ParseDict(params, a2a_pb2.SendMessageRequest())
        return [MessageToDict(each) async for each in self.client.send_message(request)]


@asynccontextmanager
async def judging(face: Face, *, streaming: bool) -> AsyncIterator[Judge]:
    """Connect the official client by the daemon's card."""
    import httpx
    from a2a.client.client import ClientConfig
    from a2a.client.client_factory import create_client

    async with httpx.AsyncClient(timeout=60) as http:
        config = ClientConfig(streaming=streaming, httpx_client=http)
        yield Judge(await create_client(face.daemon.url, config))


@pytest.mark.clients
@pytest.mark.parametrize("streaming", [True, False])
async def test_the_official_client_reads_each_answer(tmp_path: Path, streaming: bool) -> None:
    from a2a.types import a2a_pb2
    from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError

    async with (
        facing(tmp_path, "/a2a", PAY, LOOK, FAIL) as face,
        judging(face, streaming=streaming) as judge,
    ):
        spec = face.write_script(
            [think("Hm."), say("I look."), invoke("look"), invoke("fail")],
            [invoke("pay", to="Ann")],
            DONE,
        )
        picture = {"raw": "iVBORw0KGgo=", "mediaType": "image/png", "filename": "x.png"}
        heard = await judge.send(compose(spec, "1", "Pay Ann.", picture))
        last = heard[-1].get("statusUpdate") or heard[-1]["task"]
        assert last["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        task_id = heard[0]["task"]["id"]
        heard = await judge.send(compose(spec, "2", "allow", taskId=task_id))
        last = heard[-1].get("statusUpdate") or heard[-1]["task"]
        assert last["status"]["state"] == "TASK_STATE_COMPLETED"
        task = await judge.client.get_task(a2a_pb2.GetTaskRequest(id=task_id))
        assert [each.parts[0].text for each in task.artifacts] == ["I look.", "Done."]
        assert task.history[0].parts[1].filename == "x.png"
        assert task.history[0].parts[1].raw.startswith(b"\x89PNG")
        listed = await judge.client.list_tasks(a2a_pb2.ListTasksRequest())
        assert [each.id for each in listed.tasks] == [task_id]
        with pytest.raises(TaskNotCancelableError):
            await judge.client.cancel_task(a2a_pb2.CancelTaskRequest(id=task_id))
        with pytest.raises(TaskNotFoundError):
            await judge.client.get_task(a2a_pb2.GetTaskRequest(id="none.1"))
