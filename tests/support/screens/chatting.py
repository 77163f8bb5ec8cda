"""Input and output of a chat for tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence

import attrs

from vibe_llms.events.stream import ContentDeltaEvent, StreamEvent
from vibe_llms.messages.canisters import AnyCanister


@attrs.define
class TypedLines:
    """Lines that a user types; an exception is raised instead of a line."""

    lines: Iterator[str | BaseException]
    is_interactive: bool = True

    async def read(self) -> str:
        line = next(self.lines, EOFError())
        if isinstance(line, BaseException):
            raise line
        return line


@attrs.define
class RecordedOutput:
    """Output that records everything."""

    text: str = ""
    remarks: list[str] = attrs.field(factory=list)
    complaints: list[str] = attrs.field(factory=list)
    replayed: list[AnyCanister] = attrs.field(factory=list)
    interrupt_after: int = 0
    _deltas: int = 0

    def begin(self, model: str) -> None:
        self.text += "<"
        self._deltas = 0

    def feed(self, event: StreamEvent) -> None:
        if isinstance(event, ContentDeltaEvent):
            self.text += event.text
            self._deltas += 1
            if self._deltas == self.interrupt_after:
                os.kill(os.getpid(), signal.SIGINT)

    def finish(self) -> None:
        self.text += ">"

    def replay(self, canisters: Sequence[AnyCanister]) -> None:
        self.replayed += canisters

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def show_error(self, text: str) -> None:
        self.complaints.append(text)
