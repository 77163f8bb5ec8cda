"""Output of a chat: the protocol, and the implementation for pipes and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

import attrs

from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    LossEvent,
    RetryEvent,
    StreamEvent,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.interfaces.cli.output import mark_error, reveal, sanitize, shorten, style
from vibe_llms.interfaces.cli.program import respell
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, ResultCanister
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.views import describe_contents, text_of

if TYPE_CHECKING:  # importing them takes time, and only invocations need them
    from vibe_llms.events.flow import LogEvent

_CALL_COLUMNS = 160
"""Maximum width of arguments and results: users want to read the answer."""
_SEPARATING_EVENTS = frozenset({"invocation.finished", "invocation.started", "response.finished"})
"""Types of events between two texts: a call, or the end of a turn."""
_LOSSES_LIMIT = 4
"""Maximum number of kinds of losses in one line: users want to read the answer."""


class ChatOutput(Protocol):
    """Display of a chat. Between ``begin`` and ``finish`` only ``feed`` is called."""

    def begin(self, model: str) -> None:
        """Start waiting for an answer of a model, given by its address."""

    def feed(self, event: StreamEvent | LogEvent) -> None:
        """Show a piece of the answer, or an event on the way to it."""

    def finish(self) -> None:
        """End the answer, whether complete, stopped or failed."""

    def pause(self) -> None:
        """Release the terminal for a question during an answer."""

    def resume(self) -> None:
        """Take the terminal back."""

    def replay(self, canisters: Sequence[AnyCanister]) -> None:
        """Show earlier messages."""

    def remark(self, text: str) -> None:
        """Show a remark of one or more lines."""

    def show_error(self, text: str) -> None:
        """Show an error in one line."""


def read_delta(event: StreamEvent | LogEvent) -> tuple[str, str] | None:
    """Return the kind and the text of a piece that users can read; ``None`` for other events."""
    if not isinstance(event, ContentDeltaEvent) or event.channel not in ("text", "summary"):
        return None
    return (event.kind, event.text) if event.kind in ("text", "reasoning", "refusal") else None


def describe_event(event: StreamEvent | LogEvent) -> str:
    """Return a remark about an event, in one line; empty for most events."""
    if isinstance(event, ContentFinishedEvent) and isinstance(event.item, InvocationCanister):
        return describe_invocation(event.item)
    if event.type == "invocation.finished":
        return f"{describe_result(event.result)} ({event.seconds:.1f} s)"
    if event.type == "invocation.progress":
        return f"  {event.name}: {shorten(event.text, _CALL_COLUMNS)}"
    if event.type == "generation.doubted":
        return "An earlier answer was lost in a crash; it may have been billed."
    if isinstance(event, RetryEvent):
        action = "Reconnecting" if event.resumes else "Retrying"
        return f"{action} in {round(event.after_seconds, 1):g} s: {event.error.describe()}"
    return ""


def describe_invocation(canister: InvocationCanister) -> str:
    """Describe an invocation in one line; ``vibe show`` has the complete arguments."""
    return f"→ {reveal(canister.name)}({shorten(reveal(canister.arguments), _CALL_COLUMNS)})"


def describe_result(canister: ResultCanister) -> str:
    """Describe the result of an invocation in one line."""
    text = text_of(canister)
    mark = "✗" if canister.is_error else "←"
    return f"{mark} {canister.name or ''}: {shorten(text, _CALL_COLUMNS) or 'nothing'}"


@define
class Remarks:
    """Remarks in addition to the text; losses that occur together share one line.

    Each loss is shown once per model, even if the conversation is sent to the model several times.
    """

    _model: str = attrs.field(default="", init=False)
    _reported: set[Loss] = attrs.field(factory=set, init=False)
    _pending: list[Loss] = attrs.field(factory=list, init=False)

    def begin(self, model: str) -> None:
        """Prepare for an answer of a model."""
        if model != self._model:
            self._model = model
            self._reported.clear()

    def feed(self, event: StreamEvent | LogEvent) -> list[str]:
        """Return the remarks that an event causes: about losses before it, and about itself."""
        if isinstance(event, LossEvent):
            if event.loss not in self._reported:
                self._reported.add(event.loss)
                self._pending.append(event.loss)
            return []
        lines = self.finish() if self._pending else []
        if remark := describe_event(event):
            lines.append(remark)
        return lines

    def finish(self) -> list[str]:
        """Return the remaining remarks."""
        losses, self._pending = self._pending, []
        return [describe_losses(losses)] if losses else []


def describe_losses(losses: Iterable[Loss]) -> str:
    """Describe lossy translations in one line, similar losses once."""
    counts = Counter((_name_part(loss.path), loss.reason) for loss in losses)
    parts = []
    for (name, reason), count in list(counts.items())[:_LOSSES_LIMIT]:
        times = f" ({count} times)" if count > 1 else ""
        parts.append(f"{name}: {reason}{times}" if name else f"{reason}{times}")
    if len(counts) > _LOSSES_LIMIT:
        parts.append(f"and {len(counts) - _LOSSES_LIMIT} more")
    return f"Changed in translation: {'; '.join(parts)}"


def _name_part(path: str) -> str:
    """Return the last name in the path of a loss; empty if every message has such a part."""
    name = path.rpartition(".")[2].partition("[")[0]
    return "" if name in ("canisters", "content", "native") else name


def describe_canister(canister: AnyCanister) -> list[tuple[str, str]]:
    """Return the contents of a canister as pairs of kind and text; media by their names."""
    return [
        ("note", f"→ {reveal(text)}") if kind == "call" else (kind, text)
        for kind, text in describe_contents(canister)
    ]


@define
class PlainOutput:
    """Plain output: answers to one stream, unchanged; everything else to another.

    On a terminal, reasoning is shown, dimmed; elsewhere it is left out. A remark starts a new line
    on a terminal; a file or a pipe gets a line end only between two texts.
    """

    _out: TextIO
    _notes: TextIO
    _remarks: Remarks = attrs.field(factory=Remarks, init=False)
    _kind: str = attrs.field(default="", init=False)
    _last: str = attrs.field(default="\n", init=False)
    _is_separated: bool = attrs.field(default=False, init=False)

    def begin(self, model: str) -> None:
        """Show nothing."""
        self._remarks.begin(model)
        self._kind, self._last, self._is_separated = "", "\n", False

    def feed(self, event: StreamEvent | LogEvent) -> None:
        """Write a piece."""
        for remark in self._remarks.feed(event):
            if self._out.isatty():
                self._end_line()
            self.remark(remark)
        self._is_separated = self._is_separated or event.type in _SEPARATING_EVENTS
        piece = read_delta(event)
        if piece is not None:
            self._write(*piece)

    def finish(self) -> None:
        """End the line."""
        self._end_line()
        for remark in self._remarks.finish():
            self.remark(remark)

    def pause(self) -> None:
        """End the line."""
        self._end_line()

    def resume(self) -> None:
        """Do nothing."""

    def _end_line(self) -> None:
        if not self._last.endswith("\n"):
            self._out.write("\n")
            self._out.flush()
        self._last = "\n"

    def replay(self, canisters: Sequence[AnyCanister]) -> None:
        """Show nothing: the reader of a pipe wants only the new answers."""

    def remark(self, text: str) -> None:
        """Write a remark."""
        self._notes.write(style(sanitize(respell(text)), "dim", stream=self._notes) + "\n")
        self._notes.flush()

    def show_error(self, text: str) -> None:
        """Write an error."""
        self._notes.write(f"{mark_error()} {text}\n")
        self._notes.flush()

    def _write(self, kind: str, text: str) -> None:
        is_terminal = self._out.isatty()
        if not text or (kind == "reasoning" and not is_terminal):
            return
        if self._is_separated or (kind != self._kind and self._kind):
            self._end_line()
        self._is_separated = False
        self._kind, self._last = kind, text
        if is_terminal:  # files and pipes get it unchanged
            text = sanitize(text)
        self._out.write(style(text, "dim", stream=self._out) if kind == "reasoning" else text)
        self._out.flush()
