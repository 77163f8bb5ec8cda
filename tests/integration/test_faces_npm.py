"""Libraries of web pages before the agents daemon: AG-UI's client, and the AI SDK's chat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.faces.facing import FAIL, LOOK, PAY, facing, think
from support.faces.page_libraries import Libraries, starting_libraries
from support.runs.acting import invoke, say

pytestmark = [pytest.mark.node, pytest.mark.slow]

TURNS = (
    [think("Hm, let me see."), say("I look."), invoke("look"), invoke("fail")],
    [invoke("pay", to="Ann")],
    [say("Done, all is paid.")],
    [say("Goodbye.")],
)


@pytest.fixture(scope="module")
def libraries() -> Iterator[Libraries]:
    """The process in which all libraries are."""
    with starting_libraries() as started:
        yield started


async def test_an_agent_of_ag_ui(tmp_path: Path, libraries: Libraries) -> None:
    async with facing(tmp_path, "/ag-ui", PAY, LOOK, FAIL) as face:
        spec = face.write_script(*TURNS)

        async def run(**job: Any) -> Any:
            return await libraries.ask("ag-ui", face.url, "agent", props={"run": spec}, **job)

        first = await run(say=[{"id": "1", "role": "user", "content": "Pay Ann."}])
        assert first["failure"] is None
        roles = [each["role"] for each in first["messages"]]
        assert roles[:3] == ["user", "reasoning", "assistant"]
        assert sorted(roles[3:]) == ["assistant", "assistant", "assistant", "tool", "tool"]
        (interrupt,) = first["interrupts"]
        resume = [
            {
                "interruptId": interrupt["id"],
                "status": "resolved",
                "payload": {"decision": "allow"},
            }
        ]
        second = await run(resume=resume)
        assert (second["failure"], second["interrupts"]) == (None, [])
        texts = [each.get("content") for each in second["messages"]]
        assert texts[-2:] == ["paid Ann", "Done, all is paid."]
        returned = await run(forget=True)
        assert returned["events"] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        assert returned["messages"][-1]["content"] == "Done, all is paid."
        third = await run(say=[{"id": "2", "role": "user", "content": "Bye."}])
        assert [each["content"] for each in third["messages"][-2:]] == ["Bye.", "Goodbye."]
        spec = {**spec, "limits": {"run_steps": 1}}
        failed = await libraries.ask(
            "ag-ui",
            face.url,
            "failing",
            props={"run": spec},
            say=[{"id": "1", "role": "user", "content": "Pay Ann."}],
        )
        assert failed["failure"]
        refused = await libraries.ask("ag-ui", face.url, "x", props={"run": []}, say=[])
        assert "400" in refused["failure"]


async def test_a_chat_of_the_ai_sdk(tmp_path: Path, libraries: Libraries) -> None:
    async with facing(tmp_path, "/ai-sdk", PAY, LOOK, FAIL) as face:
        spec = face.write_script(*TURNS)

        async def run(**job: Any) -> Any:
            heard = await libraries.ask("ai-sdk", face.url, "t/é", body={"run": spec}, **job)
            assert (heard["failure"], heard["status"]) == (None, "ready")
            return heard

        def find(heard: Any, **wanted: Any) -> list[Any]:
            parts = heard["messages"][-1]["parts"]
            return [each for each in parts if wanted.items() <= each.items()]

        first = await run(parts=[{"type": "text", "text": "Pay Ann."}])
        assert first["finish"]["finishReason"] == "tool-calls"
        assert find(first, type="reasoning", text="Hm, let me see.")
        assert find(first, toolName="look", state="output-available")
        assert find(first, toolName="fail", state="output-error")
        (waiting,) = find(first, toolName="pay", state="approval-requested")
        reloaded = await run(forget=True, resume=True)
        assert reloaded["messages"][-1]["parts"] == first["messages"][-1]["parts"]
        approve = [{"id": waiting["approval"]["id"], "approved": True}]
        second = await run(approve=approve)
        assert second["messages"][-1]["id"] == first["messages"][-1]["id"]
        assert find(second, toolName="pay", state="output-available", output="paid Ann")
        assert find(second, type="text", text="Done, all is paid.", state="done")
        third = await run(parts=[{"type": "text", "text": "Bye."}])
        assert find(third, text="Goodbye.")
        fourth = await run(regenerate=True)
        assert len(fourth["messages"]) == len(third["messages"])
        assert fourth["messages"][-1]["id"] != third["messages"][-1]["id"]
        edited = await run(
            parts=[{"type": "text", "text": "Hello."}], edit=fourth["messages"][-2]["id"]
        )
        assert find(edited, text="Goodbye.")
        _, told = await face.daemon.ask("GET", "/conversations")
        assert len(told["data"]) == 3
        limited = {"run": {**spec, "limits": {"run_steps": 1}}}
        parts = [{"type": "text", "text": "Pay Ann."}]
        failed = await libraries.ask("ai-sdk", face.url, "failing", body=limited, parts=parts)
        assert "run_steps" in failed["failure"]
