"""First turn of a restored conversation, in each protocol, beside the floor.

The process has not seen the conversation: its canisters are fresh from a store, and nothing of
them is cached. The floor has the native body of the same request as plain objects, encodes it with
msgspec and sends it with a bare aiohttp. Further rows are tools, and decoding of a store's lines.

``python bench_restored.py time WORD …`` prints the rows with these words. ``count WORD …`` prints
instructions instead of time, which two runs agree on: cachegrind counts many turns less one, in a
process each, without the system's own.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import clients
import loopback
import msgspec
import tomli_w

from vibe_llms import Conversation, Engine, Model
from vibe_llms.application import access_application
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.invokers import invocable
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.codec.canister_lines import decode_canisters, encode_canisters
from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import InvocableDescription

REPETITIONS = 5
BUDGET = 4.0
TOOLS_BUDGET = 1.5
DECODING_BUDGET = 4.0
ENGINE_MILLISECONDS = 20.0
COUNTS = (1_000, 10_000)
TOOLS = 1_000

QUESTION = "What is known of question {} about the rain and the rivers of the north?"
ANSWER = "Of that it is known that rain is water, and that a river is water, too ({})."


@attrs.frozen
class Dialect:
    """A protocol, the provider that speaks it, and where it is served."""

    provider: str
    protocol: str
    path: str
    base: str = ""


DIALECTS = {
    "chat": Dialect("openai_conversations", "chat_completions", loopback.PATHS["chat"], "/v1"),
    "messages": Dialect("anthropic", "messages", loopback.PATHS["messages"]),
    "responses": Dialect("openai_responses", "responses", loopback.PATHS["responses"], "/v1"),
    "gemini": Dialect("google", "generate_content", "/v1beta/models/m:generateContent"),
    "ollama": Dialect("ollama", "ollama_chat", loopback.FURTHER_PATHS["ollama"]),
    "converse": Dialect("remote", "converse", loopback.FURTHER_PATHS["converse"]),
}


def compose_lines(dialect: Dialect, count: int, *, has_calls: bool, sample: int) -> bytes:
    """Composes a conversation as a store keeps it; no two samples share an id."""
    said: list[AnyCanister] = []
    for number in range(count // 2):
        origin = Origin(
            provider=dialect.provider,
            model="m",
            protocol=dialect.protocol,
            response_id=f"r-{sample}-{number}",
            stop_reason=StopReason.INVOCATION if has_calls else StopReason.ANSWERED,
            usage=Usage(input_tokens=100 * number, output_tokens=20),
        )
        turn, call = f"t-{sample}-{number}", f"call_{sample}_{number}"
        native = compose_native(dialect, f"{sample}_{number}", is_call=has_calls)
        if has_calls:
            said += [
                InvocationCanister(
                    invocation_id=call,
                    name="look",
                    arguments='{"at":"rain"}',
                    turn_id=turn,
                    origin=origin,
                    native=native,
                ),
                ResultCanister(ANSWER.format(number), invocation_id=call, name="look"),
            ]
        else:
            answer = AssistantCanister(
                ANSWER.format(number), turn_id=turn, origin=origin, native=native
            )
            said += [UserCanister(QUESTION.format(number)), answer]
    begun = [UserCanister("Look at it all.")] if has_calls else []
    return encode_canisters([*begun, *said])


def compose_native(dialect: Dialect, name: str, *, is_call: bool) -> Native | None:
    """Composes the vendor's data of an answer, where its answers always have some."""
    kept: dict[str, str] = {}
    if dialect.protocol == "responses":
        kept = {"id": f"{'fc' if is_call else 'msg'}_{name}", "status": "completed"}
    elif dialect.protocol == "generate_content" and is_call:
        kept = {"thoughtSignature": f"CiQBVKhc7{name}" * 4}
    if not kept:
        return None
    return Native(protocol=dialect.protocol, data=msgspec.json.encode(kept).decode())


def compose_tools(count: int) -> list[InvocableDescription]:
    """Composes descriptions of many tools, as those of MCP servers are."""
    place: JsonObject = {"type": "string", "description": "The place to look at."}
    depth: JsonObject = {"type": "integer", "minimum": 0, "default": 1}
    schema: JsonObject = {
        "type": "object",
        "properties": {"at": place, "depth": depth},
        "required": ["at"],
    }
    return [
        InvocableDescription(
            name=f"look_{number}", description=f"Looks at place {number}.", schema=schema
        )
        for number in range(count)
    ]


class Floor:
    """The native body as plain objects, encoded and sent."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession()

    async def send(self, dialect: Dialect, body: Mapping[str, Any]) -> None:
        """Sends a body, and decodes the answer."""
        data = msgspec.json.encode(body)
        url = self._url + dialect.path
        async with self._session.post(url, data=data, headers=clients.HEADERS) as response:
            msgspec.json.decode(await response.read())

    async def close(self) -> None:
        """Closes the session."""
        await self._session.close()


@attrs.define
class Turn:
    """A restored conversation, and the body of its next request."""

    model: Model
    dialect: Dialect
    has_calls: bool
    count: int
    tools: Sequence[InvocableDescription] = ()
    samples: int = 0

    def restore(self) -> Conversation:
        """Returns the conversation, fresh from its store."""
        self.samples += 1
        lines = compose_lines(
            self.dialect, self.count, has_calls=self.has_calls, sample=self.samples
        )
        conversation = Conversation()
        conversation.add_canisters(decode_canisters(lines))
        if not self.has_calls:
            conversation.add_user_message("And then?")
        return conversation

    async def translate(self) -> Mapping[str, Any]:
        """Returns the native body."""
        request = self.model.request(self.restore(), invocables=self.tools)
        accessed: Any = await self.model.access()
        body: dict[str, Any] = accessed.translate(request, streaming=False).value
        return body

    async def ask(self, conversation: Conversation) -> None:
        """Asks for the next turn."""
        await self.model.answer(conversation, stream=False, invocables=self.tools)


async def compare(turn: Turn, floor: Floor, *, repetitions: int = REPETITIONS) -> dict[str, float]:
    """Measures one row in microseconds."""
    body = await turn.translate()
    best = {"floor": 1e9, "ours": 1e9}
    for _ in range(repetitions):
        send = partial(floor.send, turn.dialect, body)
        ask = partial(turn.ask, turn.restore())
        for name, run in (("floor", send), ("ours", ask)):
            best[name] = min(best[name], await clients.measure(run) * 1e6)
    return best


def list_turns() -> Iterator[tuple[str, Turn]]:
    """Yields each row's name and turn."""
    for name, dialect in DIALECTS.items():
        for has_calls in (False, True):
            for count in COUNTS:
                what = "calls" if has_calls else "talk"
                model = Model(f"{dialect.provider}:m")
                yield f"{name}: {what}, {count:,} messages", Turn(model, dialect, has_calls, count)


async def measure_tools(floor: Floor) -> None:
    """Prints the rows of many tools, at the first turn and at each later one."""
    for name, dialect in DIALECTS.items():
        model = Model(f"{dialect.provider}:m")
        turn = Turn(model, dialect, False, 2, compose_tools(TOOLS))
        best = await compare(turn, floor)
        clients.print_row(f"{name}: a turn with {TOOLS:,} tools", best, "ours", TOOLS_BUDGET)
        await model.close()


async def measure_engine() -> None:
    """Prints how long an engine with many tools takes to make."""
    for kind, mark in (("decorated", invocable), ("plain", _keep)):
        best = 1e9
        for _ in range(REPETITIONS):
            tools = [mark(make_function(number)) for number in range(TOOLS)]

            async def make(tools: list[Any] = tools) -> None:
                Engine(Model("scripted:m"), tools=tools)

            best = min(best, await clients.measure(make) * 1e3)
        row = f"Engine of {TOOLS:,} {kind} functions"
        print(f"{row}: {best:.1f} ms  (at most {ENGINE_MILLISECONDS:g})")


def _keep(function: Any) -> Any:
    return function


def make_function(number: int) -> Any:
    """Makes a function that an engine can have as a tool."""

    def look(at: str, depth: int = 1) -> str:
        """Look at a place."""
        return f"{at} {depth}"

    look.__name__ = f"look_{number}"
    return look


async def measure_decoding() -> None:
    """Prints what decoding a store's lines takes, beside msgspec's own objects."""
    for has_calls in (False, True):
        lines = compose_lines(DIALECTS["chat"], COUNTS[-1], has_calls=has_calls, sample=0)

        async def bare(lines: bytes = lines) -> None:
            msgspec.json.Decoder().decode_lines(lines)

        async def ours(lines: bytes = lines) -> None:
            decode_canisters(lines)

        best = {"floor": 1e9, "ours": 1e9}
        for _ in range(REPETITIONS):
            for name, run in (("floor", bare), ("ours", ours)):
                best[name] = min(best[name], await clients.measure(run) * 1e6)
        what = "calls" if has_calls else "talk"
        row = f"decode {COUNTS[-1]:,} lines of a store, {what}"
        clients.print_row(row, best, "ours", DECODING_BUDGET)


async def _measure(url: str, words: Sequence[str]) -> None:
    floor = Floor(url)
    for what, turn in list_turns():
        if not all(word in what for word in words):
            continue
        clients.print_row(what, await compare(turn, floor), "ours", BUDGET)
        await turn.model.close()
    if not words:
        await measure_tools(floor)
        await measure_decoding()
    if not words or "Engine" in words:
        await measure_engine()
    await floor.close()


async def _perform(url: str, row: str, subject: str, times: int) -> None:
    """Performs a row so many times, to be counted."""
    floor = Floor(url)
    turn = next(turn for name, turn in list_turns() if name == row)
    body = await turn.translate()
    conversations = [turn.restore() for _ in range(3)]
    runs: dict[str, Callable[[Conversation], Awaitable[None]]] = {
        "floor": lambda _: floor.send(turn.dialect, body),
        "ours": turn.ask,
    }
    for conversation in conversations[:times]:
        await runs[subject](conversation)
    await turn.model.close()
    await floor.close()


def count_instructions(row: str, subject: str, times: int) -> int:
    """Counts the instructions of a process that performs a row so many times."""
    command = [
        *("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"),
        *(sys.executable, __file__, "perform", row, subject, str(times)),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if found is None or done.returncode:
        raise RuntimeError(done.stderr)
    return int(found[1].replace(",", ""))


def _count(words: Sequence[str]) -> None:
    for row, _ in list_turns():
        if words and not all(word in row for word in words):
            continue
        best = {}
        for subject in ("floor", "ours"):
            many, one = (count_instructions(row, subject, times) for times in (3, 1))
            best[subject] = (many - one) / 2
        values = "  ".join(f"{name} {value:13,.0f}" for name, value in best.items())
        ratio = best["ours"] / best["floor"]
        print(f"{row:40} instructions {values}  x {ratio:.2f}  (at most {BUDGET:g})", flush=True)


def configure(url: str, folder: Path) -> None:
    """Lets each provider ask the server on loopback."""
    tables = {
        each.provider: {"base_url": url + each.base, "api_key": "x"} for each in DIALECTS.values()
    }
    file = folder / "config.toml"
    file.write_text(tomli_w.dumps({"providers": tables}), encoding="utf-8")
    os.environ["VIBE_LLMS_CONFIG"] = str(file)


def main() -> None:
    """Prints the table."""
    mode, *words = sys.argv[1:] or ["time"]
    if mode == "count":
        _count(words)
        return
    with loopback.run_server() as url, tempfile.TemporaryDirectory() as folder:
        configure(url, Path(folder))
        access_application()
        if mode == "perform":
            row, subject, times = words
            asyncio.run(_perform(url, row, subject, int(times)))
        else:
            asyncio.run(_measure(url, words))


if __name__ == "__main__":
    main()
