"""Many clients at once: what is remembered to write requests faster mixes nobody's words."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from support.network.wire_servers import Connection, serve
from vibe_llms.providers import incremental_translation, request_templates


async def echo(connection: Connection) -> None:
    """Answers with the request, as Messages has it."""
    while True:
        _, _, body = await connection.read_request()
        answer = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": body.decode()}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        headers = "Content-Type: application/json\r\n"
        await connection.answer(json.dumps(answer).encode(), headers=headers)


def compose(client: int, turn: int) -> dict[str, Any]:
    """Returns a client's request: a short prompt, or a conversation that many have begun alike."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": f"You serve {client % 3}."}]
    if client % 2:
        for number in range(12):
            messages.append({"role": "user", "content": f"Example {number}."})
            messages.append({"role": "assistant", "content": f"Answer {number}."})
    for number in range(turn):
        call = {"name": "look", "arguments": json.dumps({"of": client, "at": number})}
        calls = [{"id": f"call-{number}", "type": "function", "function": call}]
        messages += [
            {"role": "user", "content": f"I am {client}, for time {number}."},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"call-{number}", "content": f"seen by {client}"},
            {"role": "assistant", "content": f"Well, {client}."},
        ]
    messages.append({"role": "user", "content": f"Secret of {client}, turn {turn}."})
    return {"model": "anthropic:m", "messages": messages, "max_tokens": 100 + client % 3}


@pytest.mark.slow
@pytest.mark.parametrize("turns", [range(6), range(5, -1, -1)])
async def test_nobody_hears_of_others(tmp_path: Path, turns: range) -> None:
    async with (
        serve(echo) as upstream,
        serve_gateway(produce_application(tmp_path, upstream.url)) as address,
        aiohttp.ClientSession() as session,
    ):

        async def converse(client: int) -> None:
            for turn in turns:
                body = compose(client, turn)
                url = f"{address}/v1/chat/completions"
                async with session.post(url, json=body) as told:
                    said = json.loads(await told.read())["choices"][0]["message"]["content"]
                sent = json.loads(said)
                assert sent["max_tokens"] == body["max_tokens"]
                words = json.dumps(sent)
                assert f"Secret of {client}, turn {turn}." in words
                assert words.count("I am ") == turn
                assert words.count(f"I am {client}, for time ") == turn
                assert words.count(f'"of": {client},') == turn
                assert words.count(f"seen by {client}") == turn
                assert f"You serve {client % 3}." in words

        await asyncio.gather(*map(converse, range(60)))
    assert incremental_translation.MEMORY_BUDGET.size <= incremental_translation.MEMORY_BUDGET.limit


@pytest.mark.slow
async def test_ways_of_asking_are_not_remembered_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[request_templates.RequestTemplates] = []
    begin = request_templates.RequestTemplates.__init__

    def note(self: request_templates.RequestTemplates, *args: Any) -> None:
        begin(self, *args)
        made.append(self)

    monkeypatch.setattr(request_templates.RequestTemplates, "__init__", note)
    async with (
        serve(echo) as upstream,
        serve_gateway(produce_application(tmp_path, upstream.url)) as address,
        aiohttp.ClientSession() as session,
    ):
        for number in range(3 * request_templates.MAX_TEMPLATES):
            told = [{"role": "user", "content": "Name a sea."}]
            body = {"model": "anthropic:m", "messages": told, "max_tokens": 1 + number}
            for _ in range(2):
                async with session.post(f"{address}/v1/chat/completions", json=body) as answer:
                    assert answer.status == 200
    assert made
    assert all(len(each._templates) <= request_templates.MAX_TEMPLATES for each in made)
    assert all(len(each._seen) <= request_templates.MAX_TEMPLATES for each in made)
