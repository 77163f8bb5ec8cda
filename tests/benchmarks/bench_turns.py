"""Cost of a turn of a long conversation, through the public interface, beside the floor.

At each turn a vendor gets the whole conversation. The floor keeps the same messages as plain
objects, encodes them with msgspec and sends them with a bare aiohttp. Rows: a turn after 1,000 and
after 10,000 messages, of talk and of a run with tools, by each of three protocols.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import clients
import loopback
import msgspec
import tomli_w

from vibe_llms import Conversation, Model
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.descriptions import InvocableDescription

TURNS = 10
BUDGET = 3.0
QUESTION = "What is known of question {} about the rain and the rivers of the north?"
ANSWER = "Of that it is known that rain is water, and that a river is water, too ({})."
PROVIDERS = {
    "chat": "openai_conversations",
    "responses": "openai_responses",
    "messages": "anthropic",
}
LOOK = InvocableDescription(name="look", description="Looks.", schema={"type": "object"})


def compose_conversation(protocol: str, count: int, *, is_run: bool) -> list[AnyCanister]:
    """Compose a conversation of a number of messages."""
    origin = Origin(provider=PROVIDERS[protocol], model="m", protocol=None)
    said: list[AnyCanister] = []
    for number in range(count // 2):
        if is_run:
            said += [
                InvocationCanister(
                    invocation_id=f"call_{number}",
                    name="look",
                    arguments='{"at": "rain"}',
                    turn_id=f"turn-{number}",
                    origin=origin,
                ),
                ResultCanister(ANSWER.format(number), invocation_id=f"call_{number}", name="look"),
            ]
        else:
            answer = AssistantCanister(
                ANSWER.format(number), turn_id=f"turn-{number}", origin=origin
            )
            said += [UserCanister(QUESTION.format(number)), answer]
    return [UserCanister("Look at it all."), *said] if is_run else said


class Floor:
    """A list of messages, encoded whole at each turn."""

    name = "floor"

    async def open(self, url: str, protocol: str, said: list[AnyCanister]) -> None:
        """Makes the session, and the messages."""
        self._url = url + loopback.PATHS[protocol]
        self._session = aiohttp.ClientSession()
        async with Model(f"{PROVIDERS[protocol]}:m") as model:
            request = model.request([*said, UserCanister("And then?")])
            translated = (await model.access()).translate(request, streaming=False)  # type: ignore[attr-defined]
        self._field = "input" if protocol == "responses" else "messages"
        self._messages: list[dict[str, Any]] = [*translated.value[self._field]]

    async def turn(self) -> None:
        """Asks once more."""
        self._messages.append({"role": "user", "content": "And then?"})
        body = msgspec.json.encode({"model": "m", self._field: self._messages})
        async with self._session.post(self._url, data=body, headers=clients.HEADERS) as response:
            msgspec.json.decode(await response.read())
        self._messages.append({"role": "assistant", "content": "Hi"})

    async def close(self) -> None:
        """Closes the session."""
        await self._session.close()


class Turns:
    """A conversation and a model, as an application has them."""

    name = "ours"

    async def open(self, url: str, protocol: str, said: list[AnyCanister]) -> None:
        """Makes both."""
        del url
        self._model = Model(f"{PROVIDERS[protocol]}:m")
        self._conversation = Conversation()
        self._conversation.add_canisters(said)

    async def turn(self) -> None:
        """Asks once more."""
        self._conversation.add_user_message("And then?")
        response = await self._model.answer(self._conversation, stream=False, invocables=[LOOK])
        self._conversation.add_canisters(response.canisters)

    async def close(self) -> None:
        """Closes the connections."""
        await self._model.close()


async def _main(url: str) -> None:
    for protocol in PROVIDERS:
        for is_run in (False, True):
            for count in (1_000, 10_000):
                said = compose_conversation(protocol, count, is_run=is_run)
                best: dict[str, float] = {}
                for subject in (Floor(), Turns()):
                    await subject.open(url, protocol, said)
                    await subject.turn()
                    for _ in range(TURNS):
                        took = await clients.measure(subject.turn)
                        best[subject.name] = min(best.get(subject.name, 1e9), took * 1e6)
                    await subject.close()
                kind = "a run's turn" if is_run else "a turn"
                clients.print_row(f"{protocol}: {kind} after {count:,}", best, "ours", BUDGET)


def main() -> None:
    """Prints the table."""
    with loopback.run_server() as url, tempfile.TemporaryDirectory() as folder:
        tables = {
            name: {"base_url": url + ("" if protocol == "messages" else "/v1"), "api_key": "x"}
            for protocol, name in PROVIDERS.items()
        }
        file = Path(folder) / "config.toml"
        file.write_text(tomli_w.dumps({"providers": tables}), encoding="utf-8")
        os.environ["VIBE_LLMS_CONFIG"] = str(file)
        asyncio.run(_main(url))


if __name__ == "__main__":
    main()
