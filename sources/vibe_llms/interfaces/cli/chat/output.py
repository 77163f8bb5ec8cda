"""Output of a chat: the protocol, and its plain form for pipes and files."""

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
from vibe_llms.messages.contents import (
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.views import text_of

if TYPE_CHECKING:  # their import costs time, and only invocations need them
    from vibe_llms.events.flow import LogEvent

_FOLDED = 160
"""Maximum length of arguments and results; a reader wants to read the answer."""
_PARTING = frozenset({"invocation.finished", "invocation.started", "response.finished"})
"""Events between two texts: a call, or the end of a turn."""
_MOST_LOSSES = 4
"""Maximum number of kinds of losses in one line; a reader wants to read the answer."""


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

    def say(self, text: str) -> None:
        """Show a remark of one or more lines."""

    def complain(self, text: str) -> None:
        """Show an error in one line."""


def read_delta(event: StreamEvent | LogEvent) -> tuple[str, str] | None:
    """Return kind and text of a readable piece; ``None`` for other events."""
    if not isinstance(event, ContentDeltaEvent) or event.channel not in ("text", "summary"):
        return None
    return (event.kind, event.text) if event.kind in ("text", "reasoning", "refusal") else None


def describe_event(event: StreamEvent | LogEvent) -> str:
    """Describe an event in one line in addition to the text; usually empty."""
    if isinstance(event, ContentFinishedEvent) and isinstance(event.item, InvocationCanister):
        return describe_invocation(event.item)
    if event.type == "invocation.finished":
        return f"{describe_result(event.result)} ({event.seconds:.1f} s)"
    if event.type == "invocation.progress":
        return f"  {event.name}: {shorten(event.text, _FOLDED)}"
    if event.type == "generation.doubted":
        return "An earlier answer was lost in a crash; it may have been billed."
    if isinstance(event, RetryEvent):
        return f"Retrying in {round(event.after_seconds, 1):g} s: {event.error.describe()}"
    return ""


def describe_invocation(canister: InvocationCanister) -> str:
    """Describe an invocation in one line; ``vibe show`` has the complete arguments."""
    return f"→ {reveal(canister.name)}({shorten(reveal(canister.arguments), _FOLDED)})"


def describe_result(canister: ResultCanister) -> str:
    """Describe the result of an invocation in one line."""
    text = text_of(canister)
    mark = "✗" if canister.is_error else "←"
    return f"{mark} {canister.name or ''}: {shorten(text, _FOLDED) or 'nothing'}"


@define
class Remarks:
    """Remarks in addition to the text; losses that occur together share one line.

    Each loss is reported once per model, however often the conversation is sent to it: the response
    lists them all.
    """

    _model: str = attrs.field(default="", init=False)
    _told: set[Loss] = attrs.field(factory=set, init=False)
    _waiting: list[Loss] = attrs.field(factory=list, init=False)

    def begin(self, model: str) -> None:
        """Prepare for an answer of a model."""
        if model != self._model:
            self._model = model
            self._told.clear()

    def take(self, event: StreamEvent | LogEvent) -> list[str]:
        """Return the remarks to show before an event, and those to show instead of it."""
        if isinstance(event, LossEvent):
            if event.loss not in self._told:
                self._told.add(event.loss)
                self._waiting.append(event.loss)
            return []
        lines = self.finish() if self._waiting else []
        if remark := describe_event(event):
            lines.append(remark)
        return lines

    def finish(self) -> list[str]:
        """Return the remaining remarks."""
        losses, self._waiting = self._waiting, []
        return [describe_losses(losses)] if losses else []


def describe_losses(losses: Iterable[Loss]) -> str:
    """Describe lossy translations in one line, similar losses once."""
    counts = Counter((_name_part(loss.path), loss.reason) for loss in losses)
    parts = []
    for (name, reason), count in list(counts.items())[:_MOST_LOSSES]:
        times = f" ({count} times)" if count > 1 else ""
        parts.append(f"{name}: {reason}{times}" if name else f"{reason}{times}")
    if len(counts) > _MOST_LOSSES:
        parts.append(f"and {len(counts) - _MOST_LOSSES} more")
    return f"Changed in translation: {'; '.join(parts)}"


def _name_part(path: str) -> str:
    """Return the last name in a path if it is more specific than a content's."""
    name = path.rpartition(".")[2].partition("[")[0]
    return "" if name in ("canisters", "content", "native") else name


def describe_canister(canister: AnyCanister) -> list[tuple[str, str]]:
    """Return the contents of a canister as pairs of kind and text; media by their names."""
    pieces: list[tuple[str, str]] = []
    if isinstance(canister, InvocationCanister):
        pieces.append(("note", f"→ {reveal(canister.name)}({reveal(canister.arguments)})"))
    for content in canister.content:
        match content:
            case TextualContent():
                pieces.append(("text", content.text))
            case ReasoningContent():
                text = content.text or "\n\n".join(content.summary)
                pieces.append(("reasoning", text))
            case RefusalContent():
                pieces.append(("refusal", content.text))
            case NativeContent():
                pieces.append(("note", content.text or f"[{content.kind}]"))
            case _:
                source = content.name or content.url or content.file_id or content.content_id
                pieces.append(("note", f"[{content.type} {source}, {content.mime_type}]"))
    return [(kind, text) for kind, text in pieces if text]


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
    _is_parted: bool = attrs.field(default=False, init=False)

    def begin(self, model: str) -> None:
        """Show nothing."""
        self._remarks.begin(model)
        self._kind, self._last, self._is_parted = "", "\n", False

    def feed(self, event: StreamEvent | LogEvent) -> None:
        """Write a piece."""
        for remark in self._remarks.take(event):
            if self._out.isatty():
                self._end_line()
            self.say(remark)
        self._is_parted = self._is_parted or event.type in _PARTING
        piece = read_delta(event)
        if piece is not None:
            self._write(*piece)

    def finish(self) -> None:
        """End the line."""
        self._end_line()
        for remark in self._remarks.finish():
            self.say(remark)

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

    def say(self, text: str) -> None:
        """Write a remark."""
        self._notes.write(style(sanitize(respell(text)), "dim", stream=self._notes) + "\n")
        self._notes.flush()

    def complain(self, text: str) -> None:
        """Write an error."""
        self._notes.write(f"{mark_error()} {text}\n")
        self._notes.flush()

    def _write(self, kind: str, text: str) -> None:
        is_terminal = self._out.isatty()
        if not text or (kind == "reasoning" and not is_terminal):
            return
        if self._is_parted or (kind != self._kind and self._kind):
            self._end_line()
        self._is_parted = False
        self._kind, self._last = kind, text
        if is_terminal:  # files and pipes get it unchanged
            text = sanitize(text)
        self._out.write(style(text, "dim", stream=self._out) if kind == "reasoning" else text)
        self._out.flush()
