"""A key that a server sends back inside of what makes no sense is in nothing that is left of it."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.network.wire_servers import Connection, serve
from support.vendors.shipped import SHIPPED, SURVEYED, ShippedProvider, is_survey
from vibe_llms.events.codec import encode_event
from vibe_llms.events.stream import NativeEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.interfaces import ConverserModel

KEY = "canary-7c1e5b9f2a"
REQUEST = Request(canisters=[UserCanister("Hello")])

ODD = {"type": "strange.one", "object": "strange", "event": "strange", "echo": {"sent": [KEY]}}
PASSING_ON = ("chat_completions", "messages", "ollama_chat", "responses")
"""The protocols whose decoders pass on what they do not understand."""

FIELDS = ("choices", "candidates", "message", "output", "content", "type")
BODIES = {
    "cut": f'{{"echo": "{KEY}',
    "broken": f'{{"type": "{KEY}", oops}}',
    "another letter": f'{{"echo": "{KEY}\xff"}}',
    "a text": f'"{KEY}"',
    "a list": f'["{KEY}"]',
    "odd types": json.dumps(dict.fromkeys(FIELDS, KEY)),
    "odd lists": json.dumps({field: [KEY] for field in FIELDS}),
    "an odd index": json.dumps({"choices": [{"index": KEY, "delta": {"content": [KEY]}}]}),
    "an odd delta": json.dumps({"type": "content_block_delta", "index": KEY, "delta": KEY}),
    "an unknown event": json.dumps(ODD),
}


def walk(value: object, depth: int = 6) -> Iterator[str]:
    """Yields the texts of all that can be reached from an error."""
    if isinstance(value, str | bytes):
        yield value if isinstance(value, str) else value.decode("latin-1")
    elif isinstance(value, BaseException) and depth:
        yield from traceback.TracebackException.from_exception(value, capture_locals=True).format()
        for name in ("args", "doc", "object", "__cause__", "__context__", "__dict__"):
            yield from walk(getattr(value, name, None), depth - 1)
    elif isinstance(value, list | tuple) and depth:
        for each in value:
            yield from walk(each, depth - 1)
    elif isinstance(value, dict) and depth:
        for each in value.items():
            yield from walk(each, depth - 1)
    else:
        yield repr(value)


async def show_exchange(model: ConverserModel, *, stream: bool) -> str:
    """Asks; returns all that is left of errors, and of events that nobody understood."""
    shown: list[str] = []
    try:
        if not stream:
            try:
                await model._client.survey_models(refresh=True)  # type: ignore[attr-defined]
            except ConverseError as error:
                shown += walk(error)
            await model.converse(REQUEST, stream=False)
            return ""
        async with model.stream(REQUEST) as events:
            async for event in events:
                if isinstance(event, NativeEvent):
                    shown += [repr(event), encode_event(event).decode()]
    except ConverseError as error:
        shown += walk(error)
    return "\n".join(shown)


@pytest.mark.slow
@pytest.mark.parametrize("provider", SHIPPED.values(), ids=list(SHIPPED))
@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
async def test_no_nonsense_keeps_a_key(
    provider: ShippedProvider, tmp_path: Path, is_streamed: bool
) -> None:
    """Neither the error, nor its causes, nor their variables, nor an event."""
    for name, body in BODIES.items():
        folder = tmp_path / name.replace(" ", "-")
        shown = await ask(provider, folder, body, is_streamed=is_streamed)
        assert KEY not in shown, name
        if is_streamed and name == "an unknown event" and provider.protocol in PASSING_ON:
            assert "********" in shown


async def ask(provider: ShippedProvider, folder: Path, body: str, *, is_streamed: bool) -> str:
    """Asks a server that answers so, streamed or whole."""
    is_sse = provider.framing == "text/event-stream"
    kind = provider.framing if is_streamed else "application/json"
    text = f"data: {body}\n\n" if is_streamed and is_sse else f"{body}\n"

    async def answer(connection: Connection) -> None:
        while True:
            line, _, _ = await connection.read_request()
            if is_survey(line):
                await connection.answer(SURVEYED)
            else:
                headers = f"Content-Type: {kind}\r\n"
                await connection.answer(text.encode("latin-1"), headers=headers)

    async with serve(answer) as server:
        model = await provider.access(server.url, folder, api_key=KEY)
        try:
            return await show_exchange(model, stream=is_streamed)
        finally:
            await model._client.close()  # type: ignore[attr-defined]
