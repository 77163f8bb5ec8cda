"""Guards for tests, and applications that configure some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.runs.scripting import write_script
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.events.stream import ContentDeltaEvent, StreamEvent
from vibe_llms.guards.active import ActiveGuard, redact
from vibe_llms.guards.streams import StreamGuard, watch_stream
from vibe_llms.plugins.specification.guards import (
    Guard,
    GuardRefusal,
    GuardVerdict,
    Inspection,
    Redaction,
)
from vibe_llms.providers.assembly import Assembler

CARD = "4111 1111 1111 1111"


class WordSpy:
    """Marks or refuses a word, and records what it was shown."""

    def __init__(
        self, word: str = "walnut", window: int | None = 8, *, refuses: bool = False
    ) -> None:
        self.word = word
        self.window = window
        self.refuses = refuses
        self.seen: list[Inspection] = []

    async def examine(self, inspection: Inspection) -> GuardVerdict:
        """Find the word everywhere."""
        self.seen.append(inspection)
        found = []
        for index, text in enumerate(inspection.texts):
            start = text.find(self.word)
            while start >= 0:
                end = start + len(self.word)
                found.append(Redaction(start, end, "[nut]", "a nut", index))
                start = text.find(self.word, end)
        return GuardRefusal("it has a nut") if self.refuses and found else found


def activate(guard: Guard, *parts: Any) -> ActiveGuard:
    """Return a guard named ``spy``."""
    return ActiveGuard(
        name="spy", guard=guard, parts=frozenset(parts or ("request", "answer", "arguments"))
    )


def produce_application(folder: Path, tables: str, *responses: dict[str, Any]) -> Application:
    """Return an application with tables, whose default model answers by a script."""
    script = write_script(folder, *(responses or ({"contents": [{"text": "You said: {input}"}]},)))
    file = folder / "config.toml"
    file.write_text(f'model = "scripted:{script}"\n{tables}', encoding="utf-8")
    environment = {"HOME": str(folder), "VIBE_LLMS_CONFIG": str(file)}
    return Application(load_configuration(environment=environment, working_directory=folder))


def watch(guard: Guard) -> StreamGuard:
    """Return the examination of one answer."""
    return watch_stream(activate(guard), Inspection(part="answer", texts=()))


def complete(events: Sequence[StreamEvent]) -> list[StreamEvent]:
    """Complete the events of a decoder, as a stream does."""
    assembler = Assembler(provider="scripted", model="test")
    return [assembler.feed(event) for event in events]


def join_deltas(events: Sequence[StreamEvent], channel: str = "text") -> str:
    """Return the text of a stream."""
    return "".join(
        event.text
        for event in events
        if isinstance(event, ContentDeltaEvent) and event.channel == channel
    )


async def mark(guard: Guard, text: str) -> str:
    """Return a whole text with the marks of a guard."""
    active = activate(guard)
    return redact(text, await active.examine(Inspection(part="answer", texts=(text,))))


def count_looks(guard: WordSpy) -> Callable[[], int]:
    """Return a function that counts the characters that a guard was shown."""
    return lambda: sum(len(text) for each in guard.seen for text in each.texts)
