"""Others beside us: the same streams and calls, by their way to the same kind of answer.

They are no dependency. This makes an environment for them, outside of the project, and runs it::

    python -m venv /tmp/peers
    /tmp/peers/bin/pip install -e . openai anthropic litellm \
        "pydantic-ai-slim[openai,anthropic]" any-llm-sdk[openai] llm
    /tmp/peers/bin/python tests/benchmarks/run.py peers

Those that are not installed are left out. CPU time of this process, ratios to the floor of the run.
The last row of each is the first turn of a conversation of 1,000 messages, fresh from a store: a
call whose history the process has not seen. Each has it as its own kind of messages.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import bench_restored
import clients
import loopback
from bench_providers import Face, configure
from bench_restored import ANSWER, DIALECTS, QUESTION, Turn

from vibe_llms import Model

CALLS = 128
REPETITIONS = 2
MESSAGES = 1_000
ROWS = (("at-once", 1), ("paced", 1), ("call", 1), ("call", 64))
_MESSAGES = [{"role": "user", "content": "Hello"}]


class _Peer:
    """A client of others; by default one that makes nothing which lasts."""

    name = ""
    package = ""
    protocols: tuple[str, ...] = ("chat",)

    async def open(self, url: str) -> None:
        self.url = url

    def compose_base(self, pace: str) -> str:
        return f"{self.url}/{pace}/v1" if pace else f"{self.url}/v1"

    def restore(self, protocol: str, sample: int) -> Any:
        """Return a conversation that is new to this process."""
        return write_history(sample)

    async def close(self) -> None:
        return None


def write_history(sample: int) -> list[dict[str, str]]:
    """Return the messages of a conversation, as of Chat Completions and Messages."""
    messages = []
    for number in range(MESSAGES // 2):
        messages.append({"role": "user", "content": QUESTION.format(f"{sample}.{number}")})
        messages.append({"role": "assistant", "content": ANSWER.format(f"{sample}.{number}")})
    return [*messages, {"role": "user", "content": "And then?"}]


class OpenAI(_Peer):
    """The official package of OpenAI."""

    name = package = "openai"
    protocols = ("chat", "responses")

    async def open(self, url: str) -> None:
        import openai

        await super().open(url)
        self.clients = {
            pace: openai.AsyncOpenAI(base_url=self.compose_base(pace), api_key="x", max_retries=0)
            for pace in ("", "at-once", "paced")
        }

    async def stream(self, pace: str, protocol: str) -> int:
        client: Any = self.clients[pace]
        seen = 0
        if protocol == "responses":
            async for event in await client.responses.create(model="m", input="Hi", stream=True):
                seen += event.type == "response.output_text.delta"
            return seen
        stream = await client.chat.completions.create(model="m", messages=_MESSAGES, stream=True)
        async for chunk in stream:
            seen += bool(chunk.choices and chunk.choices[0].delta.content)
        return seen

    async def call(self, protocol: str) -> None:
        client: Any = self.clients[""]
        if protocol == "responses":
            await client.responses.create(model="m", input="Hi")
        else:
            await client.chat.completions.create(model="m", messages=_MESSAGES)

    async def go_on(self, protocol: str, history: Any) -> None:
        client: Any = self.clients[""]
        if protocol == "responses":
            await client.responses.create(model="m", input=history)
        else:
            await client.chat.completions.create(model="m", messages=history)


class Anthropic(_Peer):
    """The official package of Anthropic."""

    name = package = "anthropic"
    protocols = ("messages",)

    async def open(self, url: str) -> None:
        import anthropic

        await super().open(url)
        self.clients = {
            pace: anthropic.AsyncAnthropic(
                base_url=self.compose_base(pace).removesuffix("/v1"), api_key="x", max_retries=0
            )
            for pace in ("", "at-once", "paced")
        }

    def _ask(self, pace: str, **options: Any) -> Any:
        client: Any = self.clients[pace]
        return client.messages.create(model="m", max_tokens=9, messages=_MESSAGES, **options)

    async def stream(self, pace: str, protocol: str) -> int:
        seen = 0
        async for event in await self._ask(pace, stream=True):
            seen += event.type == "content_block_delta"
        return seen

    async def call(self, protocol: str) -> None:
        await self._ask("")

    async def go_on(self, protocol: str, history: Any) -> None:
        await self.clients[""].messages.create(model="m", max_tokens=9, messages=history)


class LiteLLM(_Peer):
    """LiteLLM's completion."""

    name = package = "litellm"

    async def open(self, url: str) -> None:
        import litellm

        await super().open(url)
        litellm.REPEATED_STREAMING_CHUNK_LIMIT = 10 * loopback.CHUNKS  # ours are all the same

    def _ask(self, pace: str, **options: Any) -> Any:
        import litellm

        base = self.compose_base(pace)
        options = {"messages": _MESSAGES, **options}
        return litellm.acompletion(model="openai/m", api_base=base, api_key="x", **options)

    async def stream(self, pace: str, protocol: str) -> int:
        seen = 0
        async for chunk in await self._ask(pace, stream=True):
            seen += bool(chunk.choices and chunk.choices[0].delta.content)
        return seen

    async def call(self, protocol: str) -> None:
        await self._ask("")

    async def go_on(self, protocol: str, history: Any) -> None:
        await self._ask("", messages=history)


class AnyLLM(_Peer):
    """any-llm's completion."""

    name, package = "any-llm", "any_llm"

    def _ask(self, pace: str, **options: Any) -> Any:
        import any_llm

        base = self.compose_base(pace)
        options = {"messages": _MESSAGES, **options}
        return any_llm.acompletion("m", provider="openai", api_base=base, api_key="x", **options)

    async def stream(self, pace: str, protocol: str) -> int:
        seen = 0
        async for chunk in await self._ask(pace, stream=True):
            seen += bool(chunk.choices and chunk.choices[0].delta.content)
        return seen

    async def call(self, protocol: str) -> None:
        await self._ask("")

    async def go_on(self, protocol: str, history: Any) -> None:
        await self._ask("", messages=history)


class PydanticAI(_Peer):
    """The direct requests of pydantic-ai."""

    name, package = "pydantic-ai", "pydantic_ai"
    protocols = ("chat", "responses", "messages")

    async def open(self, url: str) -> None:
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.anthropic import AnthropicProvider
        from pydantic_ai.providers.openai import OpenAIProvider

        await super().open(url)
        self.models: dict[tuple[str, str], Any] = {}
        for pace in ("", "at-once", "paced"):
            base = self.compose_base(pace)
            openai = OpenAIProvider(base_url=base, api_key="x")
            anthropic = AnthropicProvider(base_url=base.removesuffix("/v1"), api_key="x")
            self.models["chat", pace] = OpenAIChatModel("m", provider=openai)
            self.models["responses", pace] = OpenAIResponsesModel("m", provider=openai)
            self.models["messages", pace] = AnthropicModel("m", provider=anthropic)

    async def stream(self, pace: str, protocol: str) -> int:
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.messages import ModelRequest, TextPart, TextPartDelta

        seen = 0
        request = ModelRequest.user_text_prompt("Hello")
        async with model_request_stream(self.models[protocol, pace], [request]) as stream:
            async for event in stream:
                piece = getattr(event, "delta", None) or getattr(event, "part", None)
                is_end = getattr(event, "event_kind", "") == "part_end"
                text = getattr(piece, "content_delta", "") or getattr(piece, "content", "")
                is_text = isinstance(piece, TextPart | TextPartDelta) and not is_end
                seen += bool(is_text and text)
        return seen

    async def call(self, protocol: str) -> None:
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest

        request = ModelRequest.user_text_prompt("Hello")
        await model_request(self.models[protocol, ""], [request])

    def restore(self, protocol: str, sample: int) -> Any:
        from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart

        return [
            ModelRequest.user_text_prompt(message["content"])
            if message["role"] == "user"
            else ModelResponse(parts=[TextPart(content=message["content"])])
            for message in write_history(sample)
        ]

    async def go_on(self, protocol: str, history: Any) -> None:
        from pydantic_ai.direct import model_request

        await model_request(self.models[protocol, ""], history)


class LLM(_Peer):
    """The library of the command llm."""

    name = package = "llm"

    def _ask(self, pace: str, *, stream: bool) -> Any:
        from llm.default_plugins.openai_models import AsyncChat

        model = AsyncChat("m", key="x", api_base=self.compose_base(pace))
        return model.prompt("Hello", stream=stream)

    async def stream(self, pace: str, protocol: str) -> int:
        seen = 0
        async for piece in self._ask(pace, stream=True):
            seen += bool(piece)
        return seen

    async def call(self, protocol: str) -> None:
        await self._ask("", stream=False).text()


PEERS: tuple[Callable[[], Any], ...] = (OpenAI, Anthropic, PydanticAI, LiteLLM, AnyLLM, LLM)


async def _measure(subject: Any, protocol: str, kind: str, count: int) -> float:
    if kind == "call":
        return await clients.measure_calls(subject.call, protocol, count, calls=CALLS)
    return await clients.measure_streams(subject, kind, protocol, count)


async def _print_peer(produce: Callable[[], Any], url: str) -> None:
    peer = produce()
    if importlib.util.find_spec(peer.package) is None:
        print(f"{peer.name}: not installed", flush=True)
        return
    subjects = [clients.Floor(), Face(), peer]
    for subject in subjects:
        await subject.open(url)
    try:
        for protocol in peer.protocols:
            for kind, count in ROWS:
                best = await clients.compare(
                    subjects,
                    lambda each, row=(protocol, kind, count): _measure(each, *row),
                    repetitions=REPETITIONS,
                )
                what = f"{protocol}: {'a call' if kind == 'call' else 'a chunk'}, {kind}, {count}"
                clients.print_row(what.replace("call, call", "call"), best, peer.name)
            if hasattr(peer, "go_on"):
                await _print_first_turn(peer, protocol, url)
    finally:
        for subject in subjects:
            await subject.close()


async def _print_first_turn(peer: Any, protocol: str, url: str) -> None:
    """Print the first turn of a restored conversation."""
    dialect = attrs.evolve(DIALECTS[protocol], provider=f"{protocol}_")
    turn = Turn(Model(f"{protocol}_:m"), dialect, has_calls=False, count=MESSAGES)
    floor = bench_restored.Floor(url)
    body = await turn.translate()
    best = {"floor": 1e9, "ours": 1e9, peer.name: 1e9}
    for sample in range(REPETITIONS + 1):
        history, conversation = peer.restore(protocol, sample), turn.restore()
        runs: dict[str, Callable[[], Any]] = {
            "floor": partial(floor.send, dialect, body),
            "ours": partial(turn.ask, conversation),
            peer.name: partial(peer.go_on, protocol, history),
        }
        for name, run in runs.items():
            best[name] = min(best[name], await clients.measure(run) * 1e6)
    clients.print_row(f"{protocol}: first turn of {MESSAGES:,} messages", best, peer.name)
    await floor.close()
    await turn.model.close()


async def _main(url: str) -> None:
    for produce in PEERS:
        try:
            await _print_peer(produce, url)
        except Exception as error:  # another's mistake ends its own rows only
            print(f"{produce.__name__}: {type(error).__name__}: {error}", flush=True)


def main() -> None:
    """Prints the table."""
    logging.disable(logging.WARNING)
    with loopback.run_server() as url, tempfile.TemporaryDirectory() as folder:
        configure(url, Path(folder))
        asyncio.run(_main(url))


if __name__ == "__main__":
    main()
