"""What a client's model answers goes on to the server that has asked, whichever form it has."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import attrs
import mcp_types as types
import pytest

from vibe_llms.invocables.mcp.relaying import Relay, ask_until_complete

CALL = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
WORDS = {"type": "text", "text": "Sunny."}


@attrs.frozen
class Client:
    """A call whose client answers every question with the same content."""

    content: Any

    async def ask(self, questions: Mapping[str, Any]) -> dict[str, Any]:
        """Answers."""
        answer = {"role": "assistant", "model": "m", "content": self.content}
        return dict.fromkeys(questions, answer)


@pytest.mark.parametrize(
    ("content", "has_tools"),
    [(WORDS, False), (WORDS, True), ([WORDS], True), (CALL, True), ([WORDS, CALL], True)],
)
async def test_an_answer_in_either_form_is_passed_on(content: Any, has_tools: bool) -> None:
    """One content, a list of them, or one call where tools were offered."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text="Look."))
    tools = [types.Tool(name="look", input_schema={"type": "object"})] if has_tools else None
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=9, tools=tools)
    question = types.CreateMessageRequest(params=params)
    asked = types.InputRequiredResult(input_requests={"q": question}, request_state="s")
    heard: list[Any] = []

    async def send(answers: Any, state: str | None) -> Any:
        heard.append((answers, state))
        return asked if answers is None else "done"

    context: Any = Client(content)
    assert await ask_until_complete(send, context, "weather") == "done"
    answers, state = heard[-1]
    said = answers["q"].model_dump(mode="json", by_alias=True, exclude_none=True)
    assert state == "s"
    assert said["content"] == content


class ClientWithSessions:
    """A client of a server with sessions, which records its log levels."""

    protocol_version = "2025-06-18"
    server_capabilities = SimpleNamespace(logging=types.LoggingCapability())

    def __init__(self) -> None:
        self.levels: list[str] = []

    async def set_logging_level(self, level: str) -> None:
        """Record the level."""
        self.levels.append(level)


async def set_level(relay: Relay, client: ClientWithSessions, level: str) -> None:
    """Set a log level, as a call with a host of this level does."""
    host: Any = SimpleNamespace(log_level=level)
    connected: Any = client
    await relay.set_log_level(connected, host)


async def test_each_connection_keeps_the_lowest_log_level() -> None:
    """Calls over one connection do not change the level of another."""
    relay, clients = Relay("weather"), [ClientWithSessions(), ClientWithSessions()]
    for level in ("info", "error", "debug", "warning"):
        for client in clients:
            await set_level(relay, client, level)
    assert [client.levels for client in clients] == [["info", "debug"]] * 2


async def test_a_new_connection_gets_its_own_log_level() -> None:
    """Also if it has the id of a closed one, which Python uses again."""
    relay = Relay("weather")
    for _ in range(10):
        client = ClientWithSessions()
        await set_level(relay, client, "debug")
        assert client.levels == ["debug"]
        del client
