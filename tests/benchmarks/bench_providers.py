"""Cost of a request from the public interface to the socket, beside the floor in the same run.

Everything is on: limits, timeouts, retries, losses, and the vendor's data are kept; in every
second row reactors receive each piece, too. The floor is a bare aiohttp, a split and msgspec.
Rows: a chunk of a stream that arrives at once and one by one, alone and fifty at a time; a small
call alone and 64 at a time, whole and as ``ask`` makes it by default, by each of the three
protocols; and what each of many slow streams takes.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import attrs
import clients
import loopback
import tomli_w

from vibe_llms import Model
from vibe_llms.events.conversation import ConversationEvent
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import ContentDeltaEvent

STREAM_BUDGETS = {"at-once": (1.3, 1.7), "paced": (1.5, 1.5)}
"""At most so many times the floor, without reactors and with them."""

CALL_BUDGETS = {
    ("call", 1): (1.2, 1.5),
    ("call", 64): (1.5, 1.5),
    ("ask", 1): (1.5, 1.5),
    ("ask", 64): (1.5, 1.5),
    ("ask_silent", 1): (1.0, 1.5),
    ("ask_silent", 64): (1.0, 1.5),
}
MEMORY_BUDGET_KB = 30

PACES = ("", "at-once", "paced", "slow", "short", "silent")
PROVIDERS = {
    "chat": ("openai_conversations", "/v1"),
    "responses": ("openai_responses", "/v1"),
    "messages": ("anthropic", ""),
}


@attrs.define
class _Ears:
    """Reactors that count what they hear."""

    heard: int = 0

    def hear(self, event: ConversationEvent) -> None:
        """Counts."""
        self.heard += 1

    def produce_reactors(self) -> ConversationReactors:
        """Makes reactors that listen to everything."""
        hear: Any = self.hear
        return ConversationReactors(
            **{field.name: hear for field in attrs.fields(ConversationReactors)}
        )


def configure(url: str, folder: Path) -> None:
    """Gives each protocol and pace a provider, as a user's configuration would."""
    tables = {
        f"{protocol}_{pace}": {
            "module": f"vibe_llms.providers.{module}",
            "base_url": f"{url}/{pace}{tail}".replace("//v1", "/v1").rstrip("/"),
            "api_key": "x",
        }
        for protocol, (module, tail) in PROVIDERS.items()
        for pace in PACES
    }
    file = folder / "config.toml"
    file.write_text(tomli_w.dumps({"providers": tables}), encoding="utf-8")
    os.environ["VIBE_LLMS_CONFIG"] = str(file)


class Face:
    """The public face, as every application has it."""

    name = "ours"
    hears = False

    async def open(self, url: str) -> None:
        """Makes a model for each protocol and pace."""
        del url  # it is in the configuration
        self._models = {
            (protocol, pace): Model(f"{protocol}_{pace}:m")
            for protocol in PROVIDERS
            for pace in PACES
        }
        self._reactors = _Ears().produce_reactors() if self.hears else None

    async def stream(self, pace: str, protocol: str) -> int:
        """Reads a stream to its end; returns how many chunks of text it had."""
        seen = 0
        model = self._models[protocol, pace]
        async with model.stream("Hello", reactors=self._reactors) as stream:
            async for event in stream:
                if isinstance(event, ContentDeltaEvent):
                    seen += 1
        return seen

    async def call(self, protocol: str) -> None:
        """Makes a small call."""
        model = self._models[protocol, ""]
        response = await model.answer("Hello", reactors=self._reactors, stream=False)
        if response.text != "Hi":
            raise AssertionError(f"{protocol} answered {response.text!r}")

    async def ask(self, protocol: str) -> None:
        """Makes a small call as it is by default: streamed."""
        await self._ask(protocol, "short")

    async def ask_silent(self, protocol: str) -> None:
        """Makes a small call whose answer is streamed without usage."""
        await self._ask(protocol, "silent")

    async def _ask(self, protocol: str, pace: str) -> None:
        response = await self._models[protocol, pace].answer("Hello", reactors=self._reactors)
        if response.text != loopback.WORD * loopback.SHORT_CHUNKS:
            raise AssertionError(f"{protocol} answered {response.text!r}")

    async def close(self) -> None:
        """Closes the connections."""
        for model in self._models.values():
            await model.close()


class HeardFace(Face):
    """The same, with reactors."""

    name = "heard"
    hears = True


async def _main(url: str) -> None:
    subject = HeardFace()
    await subject.open(url)
    grown = await clients.measure_memory(subject, "chat")
    await subject.close()
    print(
        f"{clients.SLOW_STREAMS} slow streams: {grown:.0f} KB each  (at most {MEMORY_BUDGET_KB})",
        flush=True,
    )
    for index, produce in enumerate((Face, HeardFace)):
        await clients.print_table(
            produce,
            url,
            streams={pace: each[index] for pace, each in STREAM_BUDGETS.items()},
            calls={count: each[index] for count, each in CALL_BUDGETS.items()},
        )


def main() -> None:
    """Prints the table."""
    with loopback.run_server() as url, tempfile.TemporaryDirectory() as folder:
        configure(url, Path(folder))
        asyncio.run(_main(url))


if __name__ == "__main__":
    main()
