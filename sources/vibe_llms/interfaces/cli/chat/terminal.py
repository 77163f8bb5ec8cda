"""Show a chat on a terminal: Markdown that is redrawn while it grows, until it is final."""

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
"""Minimum time between two draws of the tail: more frequent ones would only cost time."""

_MAXIMUM_COLUMNS = 100
"""Longer lines are hard to read."""

_STYLES = {"reasoning": "dim italic", "refusal": "yellow", "note": "dim", "error": "bold red"}


class _PlainHeading(Heading):
    """Left-aligned heading without a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text
        text.justify = "left"
        text.stylize("underline" if self.tag == "h1" else "")
        yield text


class _PlainCode(CodeBlock):
    """Code without a background, so that copied lines have no trailing blanks."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(
            str(self.text).rstrip(),
            self.lexer_name,
            theme="ansi_dark",
            word_wrap=True,
            background_color="default",
        )


class _AnswerMarkdown(Markdown):
    """Markdown of answers; HTML in it is shown as text, not dropped."""

    elements = {  # noqa: RUF012  # declared like this in rich
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _PlainCode,
        "code_block": _PlainCode,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("")  # parsed below by the package's own parser, which keeps HTML
        self.markup = markup
        self.parsed = produce_parser().parse(markup)
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":  # keeps the line breaks of a poem
                    child.type = "hardbreak"


class TerminalOutput:
    """``ChatOutput`` for a terminal.

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
        self._last_kind = ""
        """Kind of the last part that was written permanently; empty at the start of an answer."""
        self._is_waiting = False
        self._drawn_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._echo = Echo(self._file)

    def begin(self, model: str) -> None:
        """Show that an answer is awaited."""
        self._remarks.begin(model)
        self._splitter = BlockSplitter()
        self._kind = self._last_kind = ""
        self._is_waiting = True
        # Echo is off: typed text would appear within the answer; the prompt shows it later.
        self._echo.silence()
        self._tail.draw(self._render("note", "…"))

    def feed(self, event: StreamEvent | LogEvent) -> None:
        """Add a piece to the display."""
        for remark in self._remarks.feed(event):
            # A remark must not split a block: write the part received so far first.
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
        """Write the rest of the answer permanently."""
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
        """Write the current display permanently, and switch the echo on again."""
        self._end_part()
        self._tail.settle([])
        self._echo.restore()

    def resume(self) -> None:
        """Continue the answer."""
        self._echo.silence()

    def replay(self, canisters: Sequence[AnyCanister]) -> None:
        """Show earlier messages."""
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

    def remark(self, text: str) -> None:
        """Show a remark."""
        self._show("note", sanitize(respell(text)))

    def show_error(self, text: str) -> None:
        """Show an error."""
        self._show("error", sanitize(text))

    def _show(self, kind: str, text: str) -> None:
        self._tail.settle(self._render(kind, text))

    def _settle(self, kind: str, text: str) -> None:
        """Write a part of the answer permanently.

        An empty line separates it from the previous part, except between remarks.
        """
        lines = self._render(kind, text)
        if not lines:
            return
        if self._last_kind and not kind == self._last_kind == "note":
            lines.insert(0, ScreenLine("", 0))
        self._last_kind = kind
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
        """Draw now; or later, if the last draw was a moment ago."""
        wait = self._drawn_at + _INTERVAL_SECONDS - time.monotonic()
        if wait <= 0:
            self._draw()
        elif self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # without an event loop, the next piece or the end is drawn
                return
            self._timer = loop.call_later(wait, self._draw)

    def _draw(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rest = self._splitter.rest
        if rest.strip():
            lines = self._render(self._kind, self._crop(rest))
            if self._last_kind:
                lines.insert(0, ScreenLine("", 0))
            self._is_waiting = False
            self._tail.draw(lines)
        self._drawn_at = time.monotonic()

    def _crop(self, rest: str) -> str:
        """Drop lines that do not fit, so that rendering a long rest is as fast as a short one."""
        lines = rest.splitlines(keepends=True)
        room = self._tail.room
        if len(lines) <= 2 * room:
            return rest  # the tail drops the few lines that do not fit
        is_code = lines[0].lstrip().startswith(("```", "~~~"))
        # The end of a code block without its first line would be rendered as prose.
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
        rendered = console.render_lines(renderable, options, pad=False)
        if console.no_color:
            # Rich respects NO_COLOR only when it writes itself; these segments are written here.
            rendered = [list(Segment.remove_color(line)) for line in rendered]
        lines = [_encode_line(line, console) for line in rendered]
        # The callers insert empty lines between parts.
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
    """Encode a line that rich rendered, without trailing blanks."""
    # Cursor movements of rich would break the tail.
    texts = [segment for segment in segments if not segment.control]
    while texts and not texts[-1].text.strip() and not _is_visible(texts[-1].style):
        texts.pop()
    if texts and not _is_visible(texts[-1].style):
        texts[-1] = Segment(texts[-1].text.rstrip(), texts[-1].style)
    text = "".join(
        # The public property returns only the system's name; styles need the system object.
        segment.style.render(segment.text, color_system=console._color_system)
        if segment.style
        else segment.text
        for segment in texts
    )
    return ScreenLine(text, sum(segment.cell_length for segment in texts))


def _is_visible(style: Style | None) -> bool:
    """Return whether even blanks of this style are visible."""
    if style is None:
        return False
    has_background = style.bgcolor is not None and not style.bgcolor.is_default
    return has_background or bool(style.underline) or bool(style.reverse)
