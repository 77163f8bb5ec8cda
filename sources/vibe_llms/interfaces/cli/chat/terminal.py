"""Shows a chat on a terminal: Markdown that grows at the bottom and is left behind when final."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from vibe_llms.events.stream import StreamEvent
from vibe_llms.interfaces.cli.chat.blocks import BlockSplitter, produce_parser
from vibe_llms.interfaces.cli.chat.output import (
    Remarks,
    describe_canister,
    read_delta,
)
from vibe_llms.interfaces.cli.chat.tail import Echo, LiveTail, ScreenLine
from vibe_llms.interfaces.cli.output import sanitize
from vibe_llms.interfaces.cli.program import respell
from vibe_llms.messages.canisters import AnyCanister

if TYPE_CHECKING:
    from vibe_llms.events.flow import LogEvent

_INTERVAL_SECONDS = 0.04
"""At most so often is the tail drawn: more is not seen, and costs."""

_MAXIMUM_COLUMNS = 100
"""Longer lines are hard to read."""

_STYLES = {"reasoning": "dim italic", "refusal": "yellow", "note": "dim", "error": "bold red"}


class _PlainHeading(Heading):
    """A heading at the left, without a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text
        text.justify = "left"
        text.stylize("underline" if self.tag == "h1" else "")
        yield text


class _PlainCode(CodeBlock):
    """Code without a background, so that it can be copied without blanks at the ends of lines."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(
            str(self.text).rstrip(),
            self.lexer_name,
            theme="ansi_dark",
            word_wrap=True,
            background_color="default",
        )


class _AnswerMarkdown(Markdown):
    """Markdown as answers have it: nothing a model says is taken for HTML and left out."""

    elements = {  # noqa: RUF012  # rich declares it so
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _PlainCode,
        "code_block": _PlainCode,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("")  # parsed below, by a parser of our own, which lets HTML stand
        self.markup = markup
        self.parsed = produce_parser().parse(markup)
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":  # a poem shall stay one
                    child.type = "hardbreak"


class TerminalOutput:
    """A ``ChatOutput`` for a terminal.

    Args:
        file: The terminal.
        measure: Returns the size of its window.
    """

    def __init__(
        self,
        file: TextIO | None = None,
        measure: Callable[[], os.terminal_size] = shutil.get_terminal_size,
    ) -> None:
        self._file = sys.stdout if file is None else file
        self._measure = measure
        self._tail = LiveTail(self._file, measure)
        self._remarks = Remarks()
        self._splitter = BlockSplitter()
        self._kind = ""
        self._settled = ""
        self._is_waiting = False
        self._drawn = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._echo = Echo(self._file)

    def begin(self, model: str) -> None:
        """Shows that an answer is awaited."""
        self._remarks.begin(model)
        self._splitter = BlockSplitter()
        self._kind = self._settled = ""
        self._is_waiting = True
        # What is typed meanwhile would stand in the midst of the answer; the prompt shows it later.
        self._echo.silence()
        self._tail.draw(self._render("note", "…"))

    def feed(self, event: StreamEvent | LogEvent) -> None:
        """Adds a piece to what is shown."""
        for remark in self._remarks.take(event):
            # A remark inside of a block would tear it: what has come of the part is settled first.
            self._end_part()
            self._settle("note", sanitize(remark))
        piece = read_delta(event)
        if piece is None:
            return
        kind, text = piece
        if kind != self._kind:
            self._end_part()
            self._kind = kind
        for block in self._splitter.feed(sanitize(text)):
            self._settle(kind, block)
        self._draw_soon()

    def finish(self) -> None:
        """Leaves the answer behind, whole."""
        self._end_part()
        for remark in self._remarks.finish():
            self._settle("note", sanitize(remark))
        if self._is_waiting:
            self._tail.settle([])
            self._is_waiting = False
        self._file.write("\n")
        self._file.flush()
        self._echo.restore()

    def pause(self) -> None:
        """Leaves behind what is shown, and shows again what is typed."""
        self._end_part()
        self._tail.settle([])
        self._echo.restore()

    def resume(self) -> None:
        """Goes on with the answer."""
        self._echo.silence()

    def replay(self, canisters: Sequence[AnyCanister]) -> None:
        """Shows what was said before."""
        for canister in canisters:
            for kind, text in describe_canister(canister):
                if canister.role == "assistant":
                    self._show(kind, sanitize(text))
                elif canister.role == "user":
                    self._show("user", sanitize(text))
                else:
                    self._show("note", f"({canister.role}) {sanitize(text)}")
            self._file.write("\n")
        self._file.flush()

    def say(self, text: str) -> None:
        """Shows a remark."""
        self._show("note", sanitize(respell(text)))

    def complain(self, text: str) -> None:
        """Shows what went wrong."""
        self._show("error", sanitize(text))

    def _show(self, kind: str, text: str) -> None:
        self._tail.settle(self._render(kind, text))

    def _settle(self, kind: str, text: str) -> None:
        """Leaves a part of the answer behind, an empty line after the one before.

        Remarks that follow each other stand together.
        """
        lines = self._render(kind, text)
        if not lines:
            return
        if self._settled and not kind == self._settled == "note":
            lines.insert(0, ScreenLine("", 0))
        self._settled = kind
        self._is_waiting = False
        self._tail.settle(lines)

    def _end_part(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rest = self._splitter.finish()
        if rest.strip():
            self._settle(self._kind, rest)

    def _draw_soon(self) -> None:
        """Draws now, or when it is due; a piece that nothing follows is shown all the same."""
        wait = self._drawn + _INTERVAL_SECONDS - time.monotonic()
        if wait <= 0:
            self._draw()
        elif self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # without a loop the next piece, or the end, shows it
                return
            self._timer = loop.call_later(wait, self._draw)

    def _draw(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rest = self._splitter.rest
        if rest.strip():
            lines = self._render(self._kind, self._crop(rest))
            if self._settled:
                lines.insert(0, ScreenLine("", 0))
            self._is_waiting = False
            self._tail.draw(lines)
        self._drawn = time.monotonic()

    def _crop(self, rest: str) -> str:
        """Leaves out what there is no room for, so that a long rest costs no more than a short."""
        lines = rest.splitlines(keepends=True)
        room = self._tail.room
        if len(lines) <= 2 * room:
            return rest  # the tail cuts what is a little too much
        is_code = lines[0].lstrip().startswith(("```", "~~~"))
        # The end of a block of code without its first line would be taken for prose.
        return "".join((lines[:1] if is_code else []) + lines[-room:])

    def _render(self, kind: str, text: str) -> list[ScreenLine]:
        size = self._measure()
        width = max(4, min(size.columns - 1, _MAXIMUM_COLUMNS))
        console = Console(
            file=self._file,
            width=width,
            force_terminal=True,
            highlight=False,
        )
        options = console.options.update(width=width)
        renderable = self._compose(kind, text)
        lines = [
            # Rich heeds NO_COLOR where it writes by itself; these segments we write.
            _encode_line(Segment.remove_color(line) if console.no_color else line, console)
            for line in console.render_lines(renderable, options, pad=False)
        ]
        # Empty lines between parts are put there by who settles them.
        while lines and not lines[-1].columns:
            lines.pop()
        while lines and not lines[0].columns:
            lines.pop(0)
        return lines

    def _compose(self, kind: str, text: str) -> RenderableType:
        if kind == "text":
            return _AnswerMarkdown(text)
        if kind == "user":
            return Text("> ", style="bold cyan").append(text.strip("\n"), style="none")
        return Text(text.strip("\n"), style=_STYLES.get(kind, ""))


def _encode_line(segments: Iterable[Segment], console: Console) -> ScreenLine:
    """Makes a line of what rich rendered, without the blanks that it ends in."""
    # Rich's moves of the cursor would upset the tail's.
    kept = [segment for segment in segments if not segment.control]
    while kept and not kept[-1].text.strip() and not _is_visible(kept[-1].style):
        kept.pop()
    if kept and not _is_visible(kept[-1].style):
        kept[-1] = Segment(kept[-1].text.rstrip(), kept[-1].style)
    text = "".join(
        # The public property has the system's name alone, and styles want the system itself.
        segment.style.render(segment.text, color_system=console._color_system)
        if segment.style
        else segment.text
        for segment in kept
    )
    return ScreenLine(text, sum(segment.cell_length for segment in kept))


def _is_visible(style: Style | None) -> bool:
    """Tells whether even blanks of this style are seen."""
    if style is None:
        return False
    has_background = style.bgcolor is not None and not style.bgcolor.is_default
    return has_background or bool(style.underline) or bool(style.reverse)
