"""Live display of a flow's run on a terminal: its nodes with time, tokens and costs."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TextIO

from vibe_llms.events.flow import FlowEndedEvent, FlowEvent, FlowStartedEvent, VisitEvent
from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.courses import Course, VisitState
from vibe_llms.flows.graphs import Flow
from vibe_llms.flows.number_texts import describe_whole
from vibe_llms.interfaces.cli.chat.tail import LiveTail, ScreenLine
from vibe_llms.interfaces.cli.flows.rows import NodeRow, compose_rows
from vibe_llms.interfaces.cli.output import measure_text, sanitize, shorten, style
from vibe_llms.mermaid import parse_diagram
from vibe_llms.messages.identities import access_now

_STYLES: Final[dict[VisitState | None, tuple[str, ...]]] = {
    VisitState.DONE: ("green",),
    VisitState.RUNNING: ("cyan", "bold"),
    VisitState.WAITING: ("yellow",),
    VisitState.FAILED: ("red", "bold"),
    None: ("dim",),
}
_PAUSE_SECONDS: Final = 0.1
_TICK_SECONDS: Final = 0.5
_MIN_HEAD_COLUMNS: Final = 8
_TEXT_CHARACTERS: Final = 400
"""Number of characters that are kept of each running answer: more than a line shows."""


class PictureView:
    """Live picture of a flow's nodes at the bottom of a terminal; the last state remains.

    The nodes are in execution order; nodes of branches are indented by one step. Below them are the
    last words of answers that are being received. If there are more nodes than rows, those around
    the running node are shown.

    Attributes:
        run_id: Id of the run; empty before it starts.
    """

    def __init__(
        self,
        file: TextIO | None = None,
        *,
        measure: Callable[[], os.terminal_size] | None = None,
        access_now: Callable[[], datetime] = access_now,
    ) -> None:
        self.run_id = ""
        self._file = sys.stderr if file is None else file  # standard output is for the response
        self._measure = measure or (lambda: os.get_terminal_size(self._file.fileno()))
        self._access_now = access_now
        self._tail = LiveTail(self._file, self._measure)
        self._course = Course()
        self._flow: Flow | None = None
        self._texts: dict[int, tuple[str, str]] = {}
        """The node and the end of its answer, by branch."""
        self._drawn = 0.0
        self._is_paused = False
        self._ticking: asyncio.Task[None] | None = None

    def feed(self, event: FlowEvent | VisitEvent) -> None:
        """Process an event."""
        if isinstance(event, VisitEvent):
            self._feed_text(event)
            return
        self._course.feed(event, self._access_now())
        if isinstance(event, FlowStartedEvent):
            self._begin(event)
        elif isinstance(event, FlowEndedEvent):
            self.close()
        else:
            self._draw_again()

    def pause(self) -> None:
        """Release the terminal for a question."""
        self._is_paused = True
        self._tail.settle([])

    def resume(self) -> None:
        """Continue drawing."""
        self._is_paused = False
        self._draw()

    def close(self) -> None:
        """Draw the last state for good; idempotent."""
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
        if self._flow is not None:
            self._texts.clear()
            lines = self._compose(self._flow, len(self._flow.nodes) + 1)
            self._flow = None
            self._tail.settle(lines)

    def _begin(self, event: FlowStartedEvent) -> None:
        self.run_id = event.run_id
        diagram = event.task["flow_diagram"]
        assert isinstance(diagram, Mapping)
        self._flow = compile_flow(parse_diagram(str(diagram["mermaid"]))).flow
        self._ticking = asyncio.get_running_loop().create_task(self._tick())

    def _feed_text(self, event: VisitEvent) -> None:
        if not isinstance(event.event, ContentDeltaEvent) or event.event.kind != "text":
            return
        node, text = self._texts.get(event.branch, ("", ""))
        # Each node of a branch starts a new answer.
        text = text if node == event.node else ""
        self._texts[event.branch] = event.node, (text + event.event.text)[-_TEXT_CHARACTERS:]
        self._draw_again()

    async def _tick(self) -> None:
        while True:  # durations advance between events
            self._draw()
            await asyncio.sleep(_TICK_SECONDS)

    def _draw_again(self) -> None:
        """Draw, unless it was drawn a moment ago: frequent drawing would slow down the run."""
        if time.monotonic() - self._drawn >= _PAUSE_SECONDS:
            self._draw()

    def _draw(self) -> None:
        if self._flow is not None and not self._is_paused:
            self._drawn = time.monotonic()
            self._tail.draw(self._compose(self._flow, self._tail.room))

    def _compose(self, flow: Flow, room: int) -> list[ScreenLine]:
        now = self._access_now()
        columns = self._measure().columns
        rows = compose_rows(flow, self._course, now)
        answers = self._compose_answers(flow, columns)
        shown = _choose(rows, room - len(answers) - 1)
        lines = _compose_table(shown, columns, self._file)
        below = [*answers, self._describe_total(now)]
        return [
            *lines,
            *(
                ScreenLine(style(text, "dim", stream=self._file), measure_text(text))
                for text in (shorten(each, columns) for each in below)
            ),
        ]

    def _compose_answers(self, flow: Flow, columns: int) -> list[str]:
        """Return a line with the end of each answer that is being received."""
        running = {
            visit.branch: visit.node
            for visit in self._course.visits
            if visit.state is VisitState.RUNNING
        }
        lines = []
        for branch, (node, text) in sorted(self._texts.items()):
            if running.get(branch) == node and text.strip():
                label = flow.nodes[node].text or node
                head = f"{shorten(sanitize(label), 24)}: "
                end = _cut_front(" ".join(sanitize(text).split()), columns - measure_text(head) - 1)
                lines.append(head + end)
        return lines[:3]

    def _describe_total(self, now: datetime) -> str:
        return " · ".join(describe_whole(self._course.total, self._course.measure(now)))


def _choose(rows: Sequence[NodeRow], room: int) -> Sequence[NodeRow]:
    """Return as many rows as fit, centred on the running one."""
    room = max(1, room)
    if len(rows) <= room:
        return rows
    reached = [number for number, row in enumerate(rows) if row.state is not None]
    active = [
        number
        for number, row in enumerate(rows)
        if row.state in (VisitState.RUNNING, VisitState.WAITING, VisitState.FAILED)
    ]
    middle = (active or reached[-1:] or [0])[0]
    last_start = max(0, len(rows) - room)
    first = min(max(0, middle - room // 2), last_start)
    return rows[first : first + room]


def _compose_table(rows: Sequence[NodeRow], columns: int, file: TextIO) -> list[ScreenLine]:
    cells_by_column = zip(*(row.cells for row in rows), strict=True)
    widths = [max(map(measure_text, cells)) for cells in cells_by_column]
    used_widths = [width for width in widths if width]  # empty columns are omitted
    heads = [sanitize(row.head) for row in rows]
    room = columns - sum(used_widths) - 2 * len(used_widths) - 1
    widest_head = max(map(measure_text, heads))
    head_width = max(_MIN_HEAD_COLUMNS, min(room, widest_head))
    lines = []
    for row, head in zip(rows, heads, strict=True):
        text = _cut_end(head, head_width)
        padded = text + " " * (head_width - measure_text(text))
        cells = "".join(
            "  " + " " * (width - measure_text(cell)) + cell
            for cell, width in zip(row.cells, widths, strict=True)
            if width
        )
        lines.append(
            ScreenLine(
                style(padded, *_STYLES[row.state], stream=file) + cells,
                measure_text(padded) + measure_text(cells),
            )
        )
    return lines


def _cut_end(text: str, columns: int) -> str:
    while measure_text(text) > columns:
        text = text[:-2] + "\N{HORIZONTAL ELLIPSIS}"
    return text


def _cut_front(text: str, columns: int) -> str:
    if measure_text(text) <= columns:
        return text
    while text and measure_text(text) > columns - 1:
        text = text[1:]
    return f"\N{HORIZONTAL ELLIPSIS}{text}"
