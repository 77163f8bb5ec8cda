"""What a chat shows: the protocol, and the plain form of it for pipes and files."""

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

if TYPE_CHECKING:  # where nothing is invoked, nobody pays for the events of that
    from vibe_llms.events.flow import LogEvent

_FOLDED = 160
"""So many characters of arguments and results are shown; a reader wants to read the answer."""
_PARTING = frozenset({"invocation.finished", "invocation.started", "response.finished"})
"""What comes between two texts: a call, or the end of a turn."""
_MOST_LOSSES = 4
"""More kinds of losses than these are not named in a line; a reader wants to read the answer."""


class ChatOutput(Protocol):
    """Where a chat shows itself. Between ``begin`` and ``finish`` only ``feed`` is called."""

    def begin(self, model: str) -> None:
        """An answer is awaited from a model, by its address."""

    def feed(self, event: StreamEvent | LogEvent) -> None:
        """Something of the answer has arrived, or of what the model does on its way to one."""

    def finish(self) -> None:
        """The answer is over, whether complete, stopped or failed."""

    def pause(self) -> None:
        """Leaves the terminal to somebody who asks a question in the middle of an answer."""

    def resume(self) -> None:
        """Takes the terminal again."""

    def replay(self, canisters: Sequence[AnyCanister]) -> None:
        """Shows what was said before."""

    def say(self, text: str) -> None:
        """Shows a remark, of one line or several."""

    def complain(self, text: str) -> None:
        """Shows what went wrong, in one line."""


def read_delta(event: StreamEvent | LogEvent) -> tuple[str, str] | None:
    """Return kind and text of a piece that a reader wants to see; ``None`` for other events."""
    if not isinstance(event, ContentDeltaEvent) or event.channel not in ("text", "summary"):
        return None
    return (event.kind, event.text) if event.kind in ("text", "reasoning", "refusal") else None


def describe_event(event: StreamEvent | LogEvent) -> str:
    """Says in one line what a reader should know besides the text; mostly nothing."""
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
    """Says in one line what is invoked; ``vibe show`` has all of the arguments."""
    return f"→ {reveal(canister.name)}({shorten(reveal(canister.arguments), _FOLDED)})"


def describe_result(canister: ResultCanister) -> str:
    """Says in one line what came of an invocation."""
    text = text_of(canister)
    mark = "✗" if canister.is_error else "←"
    return f"{mark} {canister.name or ''}: {shorten(text, _FOLDED) or 'nothing'}"


@define
class Remarks:
    """What a reader should know besides the text, with the losses that come together in one line.

    Each loss is told once of each model, however often it is sent the conversation: the response
    lists them all.
    """

    _model: str = attrs.field(default="", init=False)
    _told: set[Loss] = attrs.field(factory=set, init=False)
    _waiting: list[Loss] = attrs.field(factory=list, init=False)

    def begin(self, model: str) -> None:
        """Prepares for an answer of a model."""
        if model != self._model:
            self._model = model
            self._told.clear()

    def take(self, event: StreamEvent | LogEvent) -> list[str]:
        """Returns what is to be said before an event is shown, and in its place."""
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
        """Returns what is still to be said."""
        losses, self._waiting = self._waiting, []
        return [describe_losses(losses)] if losses else []


def describe_losses(losses: Iterable[Loss]) -> str:
    """Says in one line what could not be carried over as it was, alike things once."""
    counts = Counter((_name_part(loss.path), loss.reason) for loss in losses)
    parts = []
    for (name, reason), count in list(counts.items())[:_MOST_LOSSES]:
        times = f" ({count} times)" if count > 1 else ""
        parts.append(f"{name}: {reason}{times}" if name else f"{reason}{times}")
    if len(counts) > _MOST_LOSSES:
        parts.append(f"and {len(counts) - _MOST_LOSSES} more")
    return f"Changed in translation: {'; '.join(parts)}"


def _name_part(path: str) -> str:
    """Returns the last name in a path, where it says more than that it is a content."""
    name = path.rpartition(".")[2].partition("[")[0]
    return "" if name in ("canisters", "content", "native") else name


def describe_canister(canister: AnyCanister) -> list[tuple[str, str]]:
    """Returns what a canister holds as pairs of kind and text; media by their names."""
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
    """Answers as they are, to one stream; everything else to another.

    On a terminal, reasoning is shown, dimmed; elsewhere it is left out. A remark begins a line of
    its own on a terminal; a file or a pipe gets a line end only between two texts.
    """

    _out: TextIO
    _notes: TextIO
    _remarks: Remarks = attrs.field(factory=Remarks, init=False)
    _kind: str = attrs.field(default="", init=False)
    _last: str = attrs.field(default="\n", init=False)
    _is_parted: bool = attrs.field(default=False, init=False)

    def begin(self, model: str) -> None:
        """Shows nothing."""
        self._remarks.begin(model)
        self._kind, self._last, self._is_parted = "", "\n", False

    def feed(self, event: StreamEvent | LogEvent) -> None:
        """Writes a piece."""
        for remark in self._remarks.take(event):
            if self._out.isatty():
                self._end_line()
            self.say(remark)
        self._is_parted = self._is_parted or event.type in _PARTING
        piece = read_delta(event)
        if piece is not None:
            self._write(*piece)

    def finish(self) -> None:
        """Ends the line."""
        self._end_line()
        for remark in self._remarks.finish():
            self.say(remark)

    def pause(self) -> None:
        """Ends the line."""
        self._end_line()

    def resume(self) -> None:
        """Does nothing."""

    def _end_line(self) -> None:
        if not self._last.endswith("\n"):
            self._out.write("\n")
            self._out.flush()
        self._last = "\n"

    def replay(self, canisters: Sequence[AnyCanister]) -> None:
        """Shows nothing: whoever reads a pipe wants the new answers only."""

    def say(self, text: str) -> None:
        """Writes a remark."""
        self._notes.write(style(sanitize(respell(text)), "dim", stream=self._notes) + "\n")
        self._notes.flush()

    def complain(self, text: str) -> None:
        """Writes what went wrong."""
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
        if is_terminal:  # files and pipes get it as it is
            text = sanitize(text)
        self._out.write(style(text, "dim", stream=self._out) if kind == "reasoning" else text)
        self._out.flush()
