"""A client that is too slow for some pieces of an answer still has the whole answer in the end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from support.faces.facing import LOOK, facing
from support.runs.acting import invoke, say
from vibe_llms.runs.subscriptions import LogSubscriptions

pytestmark = pytest.mark.slow

TEXTS = ["The first text, which has many pieces.", "The second text, which has more of them."]


def drop_pieces(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Lose a fifth of all pieces."""
    dice, send = random.Random(seed), LogSubscriptions.send_transient

    def send_some(self: LogSubscriptions, run_id: str, data: bytes) -> None:
        if dice.random() > 0.2:
            send(self, run_id, data)

    monkeypatch.setattr(LogSubscriptions, "send_transient", send_some)


def read_ag_ui(events: list[dict[str, Any]]) -> list[str]:
    """Return the texts of the messages that a client has in the end."""
    messages: dict[str, str] = {}
    for event in events:
        match event["type"]:
            case "TEXT_MESSAGE_START":
                messages[event["messageId"]] = ""
            case "TEXT_MESSAGE_CONTENT":
                messages[event["messageId"]] += event["delta"]
            case "MESSAGES_SNAPSHOT":
                answers = [each for each in event["messages"] if each["role"] == "assistant"]
                messages = {each["id"]: each["content"] for each in answers if "content" in each}
    return [*messages.values()]


def read_ai_sdk(chunks: list[dict[str, Any]]) -> list[str]:
    """Return the texts of the parts that a client has in the end."""
    steps: list[dict[str, str]] = []
    for chunk in chunks:
        match chunk["type"]:
            case "start-step":
                steps.append({})
            case "reset-step":
                steps[-1].clear()
            case "text-start":
                steps[-1][chunk["id"]] = ""
            case "text-delta":
                steps[-1][chunk["id"]] += chunk["delta"]
    return [text for step in steps for text in step.values()]


def read_a2a(answers: list[dict[str, Any]]) -> list[str]:
    """Return the texts of the artifacts that a client has in the end."""
    artifacts: dict[str, str] = {}
    for answer in answers:
        if update := answer["result"].get("artifactUpdate"):
            artifact = update["artifact"]
            known = artifacts.get(artifact["artifactId"], "") if update["append"] else ""
            text = "".join(part["text"] for part in artifact["parts"])
            artifacts[artifact["artifactId"]] = known + text
    return [*artifacts.values()]


def compose_ag_ui(spec: Any, name: str) -> dict[str, Any]:
    messages = [{"id": "1", "role": "user", "content": "Go."}]
    return {"threadId": name, "runId": "r", "messages": messages, "forwardedProps": {"run": spec}}


def compose_ai_sdk(spec: Any, name: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": "Go."}]
    return {"id": name, "messages": [{"id": "1", "role": "user", "parts": parts}], "run": spec}


def compose_a2a(spec: Any, name: str) -> dict[str, Any]:
    message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": "Go."}]}
    params = {"message": message, "metadata": {"run": spec}}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params}


@pytest.mark.parametrize(
    ("path", "compose", "read", "sign"),
    [
        ("/ag-ui", compose_ag_ui, read_ag_ui, "MESSAGES_SNAPSHOT"),
        ("/ai-sdk", compose_ai_sdk, read_ai_sdk, "reset-step"),
        ("/a2a", compose_a2a, read_a2a, "answer.withdrawn"),
    ],
)
async def test_lost_pieces_are_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, compose: Any, read: Any, sign: str
) -> None:
    withdrawn = 0
    async with facing(tmp_path, path, LOOK) as face:
        face.headers = {"A2A-Version": "1.0"}
        spec = face.write_script([say(TEXTS[0]), invoke("look")], [say(TEXTS[1])])
        for seed in range(20):
            drop_pieces(monkeypatch, seed)
            told = await face.post(compose(spec, f"{seed}"))
            monkeypatch.undo()
            assert read(told) == TEXTS, seed
            withdrawn += sign in str(told)
    assert withdrawn > 0
