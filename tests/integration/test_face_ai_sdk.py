"""The AI SDK's chat as a face of the agents daemon: approvals, edits and resumed streams."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.faces.facing import FAIL, LOOK, PAY, facing, facing_friends, read_events, think
from support.runs.acting import invoke, say
from support.runs.scripting import hold_slow_answers

pytestmark = pytest.mark.slow

CHAT = "chat/1 ü"
STREAM = "/ai-sdk/chat%2F1%20%C3%BC/stream"
DONE = [say("Done.")]


def ask(identity: str, *texts: str) -> dict[str, Any]:
    """Return a message of the user."""
    parts = [{"type": "text", "text": text} for text in texts]
    return {"id": identity, "role": "user", "parts": parts}


def compose(spec: Any, *messages: Any, **more: Any) -> dict[str, Any]:
    """Return the body of a request."""
    trigger = "submit-message"
    return {"id": CHAT, "messages": list(messages), "trigger": trigger, "run": spec, **more}


def read_text(chunks: list[dict[str, Any]]) -> str:
    """Return the text of an answer."""
    return "".join(each["delta"] for each in chunks if each["type"] == "text-delta")


def select(chunks: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the chunks of a kind."""
    return [each for each in chunks if each["type"] == kind]


def respond(chunks: list[dict[str, Any]], *, approved: bool, **more: Any) -> dict[str, Any]:
    """Return the assistant's message, with the answers to its requests for approval."""
    parts = [
        {
            "type": "dynamic-tool",
            "toolCallId": each["toolCallId"],
            "state": "approval-responded",
            "approval": {"id": each["approvalId"], "approved": approved, **more},
        }
        for each in select(chunks, "tool-approval-request")
    ]
    return {"id": chunks[0]["messageId"], "role": "assistant", "parts": parts}


async def test_a_chat_waits_for_an_approval_and_continues_the_same_message(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ai-sdk", PAY, LOOK, FAIL) as face:
        spec = face.write_script(
            [think("Hm."), say("I look."), invoke("look"), invoke("fail")],
            [invoke("pay", to="Ann")],
            DONE,
        )
        first = await face.post(compose(spec, ask("1", "Pay Ann.")))
        assert read_text(first) == "I look."
        assert [each["delta"] for each in select(first, "reasoning-delta")] == ["Hm."]
        assert "broken" in select(first, "tool-output-error")[0]["errorText"]
        (seen,) = select(first, "tool-output-available")
        assert [each["type"] for each in seen["output"]] == ["text", "file"]
        assert select(first, "tool-input-available")[-1]["input"] == {"to": "Ann"}
        assert first[-1]["finishReason"] == "tool-calls"
        answered = respond(first, approved=True)
        second = await face.post(compose(spec, ask("1", "Pay Ann."), answered))
        assert second[0]["messageId"] == first[0]["messageId"]
        (result,) = select(second, "tool-output-available")
        assert (result["toolCallId"], result["output"]) == (
            answered["parts"][0]["toolCallId"],
            "paid Ann",
        )
        assert (read_text(second), second[-1]["finishReason"]) == ("Done.", "stop")
        again = await face.post(compose(spec, ask("1", "Pay Ann.")))  # the answer was lost
        assert read_text(again) == "I look.Done."
        late = await face.post(compose(spec, answered))
        assert "does not wait" in str(select(late, "data-vibe"))


async def test_a_denied_call_is_told_as_denied(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ai-sdk", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], DONE)
        first = await face.post(compose(spec, ask("1", "Pay Ann.")))
        denied = respond(first, approved=False, reason="Too much.")
        second = await face.post(compose(spec, denied))
        (response,) = select(second, "tool-approval-response")
        assert (response["approved"], response["reason"]) == (False, "Too much.")
        assert len(select(second, "tool-output-denied")) == 1
        assert not select(second, "tool-output-available")


async def test_a_message_to_a_chat_that_waits_is_answered_with_the_rest(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ai-sdk", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], DONE)
        await face.post(compose(spec, ask("1", "Pay Ann.")))
        more = await face.post(compose(spec, ask("1", "Pay Ann."), ask("2", "Hurry.")))
        (shown,) = select(more, "tool-input-available")  # this message does not have the call
        (request,) = select(more, "tool-approval-request")
        assert shown["toolCallId"] == request["toolCallId"]
        told = await face.post(compose(spec, respond(more, approved=True)))
        assert select(told, "tool-output-available")[0]["toolCallId"] == shown["toolCallId"]
        assert read_text(told) == "Done."


async def test_an_edit_and_a_regenerated_answer_are_forks(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ai-sdk") as face:
        spec = face.write_script([say("{input}!")])
        for index, text in enumerate("ABC"):
            assert read_text(await face.post(compose(spec, ask(f"{index}", text)))) == f"{text}!"
        regenerate = {"trigger": "regenerate-message", "messageId": "x"}
        again = await face.post(compose(spec, ask("0", "A"), ask("1", "B"), **regenerate))
        assert read_text(again) == "B!"
        edit = compose(spec, ask("0", "A"), ask("1", "D"), messageId="1")
        assert read_text(await face.post(edit)) == "D!"
        assert read_text(await face.post(edit)) == "D!"  # the same edit is no second one
        _, told = await face.daemon.ask("GET", "/conversations")
        counts = {}
        for row in told["data"]:
            _, stored = await face.daemon.ask("GET", f"/conversations/{row['id']}")
            texts = [each["content"][0]["text"] for each in stored["data"]]
            counts["".join(texts)] = row["parent"]
        assert {*counts} == {"AA!BB!CC!", "AA!BB!", "AA!DD!"}
        assert read_text(await face.post(compose(spec, ask("9", "E")))) == "E!"
        for change in ({"messageId": "none"}, {**regenerate, "messages": [ask("none", "X")]}):
            status, _ = await face.refuse({**edit, **change})
            assert status == 400


async def test_a_stream_is_resumed_until_the_run_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go = asyncio.Event()
    hold_slow_answers(monkeypatch, lambda _: may_go.is_set())
    async with facing(tmp_path, "/ai-sdk", LOOK) as face:
        spec = face.write_script([say("First."), invoke("look")], [say("Second.")])
        script = tmp_path / "script.toml"
        slow = "[[responses]]\ndelay_seconds = 0.001"
        script.write_text(script.read_text("utf-8").replace("[[responses]]", slow, 1), "utf-8")
        session, url = face.daemon.session, face.daemon.url + STREAM
        async with session.get(url) as answer:
            assert answer.status == 204
        async with session.post(face.url, json=compose(spec, ask("1", "A"))) as stream:
            assert stream.headers["x-vercel-ai-ui-message-stream"] == "v1"
            await stream.content.readuntil(b"start-step")
        async with session.get(url) as answer:
            assert answer.status == 200
            may_go.set()
            told = await answer.read()
        assert told.endswith(b"data: [DONE]\n\n")
        assert read_text(read_events(told)) == "First.Second."
        async with session.get(url) as answer:
            assert answer.status == 204


async def test_what_a_model_does_not_see_is_told(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ai-sdk") as face:
        message = ask("1", "A")
        message["parts"].append({"type": "data-weather", "data": {}})
        told = await face.post(compose(face.write_script(DONE), message, other=1))
        reasons = str(select(told, "data-vibe"))
        assert "data-weather" in reasons
        assert "other" in reasons


async def test_a_file_reaches_the_conversation(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ai-sdk") as face:
        url = "data:image/png;base64,iVBORw0KGgo="
        message = ask("1", "Look.")
        message["parts"].append(
            {"type": "file", "mediaType": "image/png", "filename": "x.png", "url": url}
        )
        await face.post(compose(face.write_script(DONE), message))
        (row,) = (await face.daemon.ask("GET", "/conversations"))[1]["data"]
        _, told = await face.daemon.ask("GET", f"/conversations/{row['id']}")
        _, picture = told["data"][0]["content"]
        assert (picture["type"], picture["mime_type"], picture["name"]) == (
            "image",
            "image/png",
            "x.png",
        )


async def test_a_stop_and_a_failure_end_the_stream(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ai-sdk", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], DONE)
        await face.post(compose(spec, ask("1", "A")))
        (run,) = (await face.daemon.ask("GET", "/runs"))[1]["data"]
        await face.daemon.ask("POST", f"/runs/{run['id']}/stop", {"reason": "Enough."})
        stopped = await face.post(compose(spec, ask("1", "A")))
        assert stopped[-1] == {"type": "abort", "reason": "Enough."}
        limited = {**spec, "limits": {"run_steps": 1}, "ensembles": []}
        failed = await face.post(compose(limited, ask("1", "A"), id="other"))
        assert "run_steps" in select(failed, "error")[0]["errorText"]
        assert failed[-1]["finishReason"] == "error"


@pytest.mark.parametrize(
    "change",
    [
        {"id": None},
        {"id": ""},
        {"messages": []},
        {"messages": {}},
        {"messages": [1]},
        {"messages": [{"id": "1", "role": "user", "parts": [{"type": "text"}]}]},
        {"messages": [{"id": "1", "role": "user", "parts": [5]}]},
        {"messages": [{"id": "1", "role": "user", "parts": []}]},
        {"messages": [{"id": "1", "role": [], "parts": []}]},
        {"messages": [{"id": "1", "role": "assistant", "parts": []}]},
        {"messages": [{"id": "1", "role": "user", "parts": [{"type": "file", "url": "x:y"}]}]},
        {"trigger": []},
        {"messageId": 5},
        {"run": 5},
    ],
)
async def test_an_invalid_request_is_refused(tmp_path: Path, change: Any) -> None:
    async with facing(tmp_path, "/ai-sdk") as face:
        body = {**compose(face.write_script(DONE), ask("1", "A")), **change}
        status, told = await face.refuse(body)
        assert 400 <= status < 500, told
        assert (await face.daemon.ask("GET", "/runs"))[1]["data"] == []


async def test_chats_of_others_are_other_chats(tmp_path: Path) -> None:
    async with facing_friends(tmp_path, "/ai-sdk") as (ann, bob):
        spec = ann.write_script([say("{input}")])
        await ann.post(compose(spec, ask("1", "Secret.")))
        assert "Secret." not in str(await bob.post(compose(spec, ask("1", "Hello."))))
        assert "Secret." in str(await ann.post(compose(spec, ask("1", "Secret."))))
