"""The picture of a run on a terminal."""

from __future__ import annotations

import asyncio
import io
import os
from datetime import timedelta

import pyte
import pytest

from support.flows.flow_courses import CourseWriter
from support.flows.flow_graphs import draw
from vibe_llms.events.flow import FlowStartedEvent, VisitEvent
from vibe_llms.events.stream import ContentDeltaEvent, ContentKind
from vibe_llms.interfaces.cli.chat.tail import is_drawable
from vibe_llms.interfaces.cli.flows.picture import PictureView
from vibe_llms.interfaces.cli.flows.rows import order_nodes

DIAGRAM = """graph TD
START --> P0[Outline] --> S[Both]
S --> P1[Facts] --> J[Weigh]
S --> P2[Style] --> J --> END"""


class Watching:
    """A view, and the screen that it draws on."""

    def __init__(self, columns: int = 60, rows: int = 30, diagram: str = DIAGRAM) -> None:
        self.run = CourseWriter()
        self.now = self.run.now
        self.file = io.StringIO()
        self.screen = pyte.Screen(columns, rows)
        self.view = PictureView(
            self.file,
            measure=lambda: os.terminal_size((columns, rows)),
            access_now=lambda: self.now,
        )
        self.view.feed(FlowStartedEvent(run_id="run", task={"flow_diagram": {"mermaid": diagram}}))
        self._heard = len(self.run.events)

    def say(self, node: str, text: str, branch: int = 0, kind: ContentKind = "text") -> None:
        """A piece of an answer arrives."""
        delta = ContentDeltaEvent(0, text, kind=kind)
        self.view.feed(VisitEvent(node=node, visit=1, branch=branch, event=delta))

    def look(self) -> list[str]:
        """What is on the screen, after all that has happened."""
        self.hear()
        self.view.resume()
        return self.read()

    def hear(self) -> None:
        """The view hears of all that has happened, each thing at its time."""
        for told in self.run.events[self._heard :]:
            self.now = told.timestamp
            self.view.feed(told.event)
        self._heard, self.now = len(self.run.events), self.run.now

    def read(self) -> list[str]:
        """What is on the screen."""
        stream = pyte.Stream(self.screen)
        stream.feed(self.file.getvalue())
        self.file.truncate(0)
        self.file.seek(0)
        lines = [line.rstrip() for line in self.screen.display]
        return lines[: max((n + 1 for n, line in enumerate(lines) if line), default=0)]


async def test_nodes_are_drawn_with_what_they_took_while_they_are_visited() -> None:
    """Branches one step in, running answers by their last words, sums at the bottom."""
    watching = Watching()
    run = watching.run
    run.visit("START", 0)
    run.visit("P0", 1, seconds=2, tokens=1200, cost_cents=1.5)
    run.visit("S", 2, 4)
    run.begin("P1", branch=1)
    run.begin("P2", branch=2)
    run.now += timedelta(seconds=3)
    watching.look()
    watching.say("P1", "The moon \x1b[31m pulls,\n and so on and on and on and on and on", 1)

    assert watching.look() == [
        "✓ START",
        "✓ Outline  2.0 s  1.2k  $0.015",
        "✓ Both",
        "│ ▸ Facts  3.0 s",
        "│ ▸ Style  3.0 s",
        "  Weigh",
        "  END",
        "Facts: … ␛[31m pulls, and so on and on and on and on and on",
        "5 visits · 5.0 s · 1.2k tokens · $0.015",
    ]

    run.finish("P1", 3, branch=1)
    run.end("failed", node="P2")
    watching.hear()
    assert watching.read() == [
        "✓ START",
        "✓ Outline  2.0 s  1.2k  $0.015",
        "✓ Both",
        "│ ✓ Facts  3.0 s",
        "│ ✗ Style  3.0 s",
        "  Weigh",
        "  END",
        "5 visits · 5.0 s · 1.2k tokens · $0.015",
    ]


async def test_the_last_picture_stays_and_nothing_is_left_running() -> None:
    """Below it goes on whatever comes next."""
    watching = Watching()
    watching.run.visit("START", 0)
    watching.look()

    watching.view.close()
    watching.view.close()
    watching.file.write("next")

    await asyncio.sleep(0)
    lines = watching.read()
    assert lines[0] == "✓ START"
    assert (lines[-2], lines[-1]) == ("1 visit", "next")
    assert len(asyncio.all_tasks()) == 1


async def test_a_question_has_the_terminal_to_itself() -> None:
    """The picture is put away, and comes back."""
    watching = Watching()
    watching.run.visit("START", 0)
    before = watching.look()

    watching.view.pause()
    watching.run.begin("P0")
    watching.hear()
    assert watching.read() == []
    watching.view.resume()
    assert len(watching.read()) == len(before)
    watching.view.close()


async def test_of_many_nodes_those_at_work_are_shown() -> None:
    """As many as there is room for; at the end all of them are."""
    names = ["START", *(f"P{number}" for number in range(40)), "END"]
    watching = Watching(rows=20, diagram="graph TD\n" + " --> ".join(names))
    for name in names[:20]:
        watching.run.visit(name, 0)
    watching.run.begin("P19")
    lines = watching.look()

    assert len(lines) == 10
    assert any("▸ P19" in line for line in lines)
    watching.view.close()


async def test_an_answer_under_way_is_shown_by_its_words_alone() -> None:
    """Neither by what the model thinks nor by the arguments of its calls."""
    watching = Watching()
    watching.run.begin("P0")
    watching.look()
    watching.say("P0", "annoying", kind="reasoning")
    watching.say("P0", "The moon")
    watching.say("P0", "secret", kind="invocation")

    shown = "\n".join(watching.look())

    assert "The moon" in shown
    assert "annoying" not in shown
    assert "secret" not in shown
    watching.view.close()


@pytest.mark.parametrize("columns", [20, 40])
async def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    """However long labels and answers are."""
    label = "A label that is much longer than any terminal is wide, 漢字 too"
    watching = Watching(columns, diagram=f"graph TD\nSTART --> P0[{label}] --> END")
    watching.run.begin("P0")
    watching.look()
    watching.say("P0", "word " * 50)
    lines = watching.look()

    assert len(lines) == 5
    assert "…" in lines[1]
    watching.view.close()


def test_a_join_comes_behind_its_branches() -> None:
    """Also where the diagram names it before the last one; what cannot be reached comes last."""
    flow = draw(
        "START > S", "S > A", "A > J", "S > B", "B > J", "J > C : no", "C > S", "J > END : yes"
    )
    assert list(order_nodes(flow)) == ["START", "S", "A", "B", "J", "C", "END"]


def test_pictures_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a pipe go lines."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    assert is_drawable(Terminal())
    assert not is_drawable(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not is_drawable(Terminal())
