"""Draw the view with Textual, and handle the keys."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from vibe_llms.agents.interfaces import Runs
from vibe_llms.exceptions import ConverseError, UnknownNameError
from vibe_llms.foundation.package_data import access_data
from vibe_llms.interfaces.cli.output import repair, sanitize, write_count
from vibe_llms.interfaces.cli.runs.event_texts import ANSWERED
from vibe_llms.interfaces.cli.top import screen_texts
from vibe_llms.interfaces.cli.top.approval_dialogs import ApprovalScreen
from vibe_llms.interfaces.cli.top.feeding import Board, BoardFeed
from vibe_llms.interfaces.cli.top.keys import SMALL_COLUMNS, Keys
from vibe_llms.interfaces.cli.top.line_dialogs import LineScreen
from vibe_llms.interfaces.cli.top.views import (
    FILTERS,
    FilterChosen,
    NoticeSet,
    PageTurned,
    RunSelected,
    View,
    WordsChosen,
)
from vibe_llms.invocables.approvals import Approval
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.surveying import RESTS

_DRAW_SECONDS: Final = 0.1
_AGE_SECONDS: Final = 1.0
_WIDE_COLUMNS: Final = 120
_STYLES: Final = {
    "waiting": "bold $warning",
    "working": "$success",
    "due": "$warning",
    "broken_off": "$error",
    "failed": "$error",
    "stopped": "$text-muted",
    "ended": "$text-muted",
}


class TopApp(App[None]):
    """Textual application of ``vibe top``.

    Args:
        runs: The source of the runs.
        place: The location of the runs, shown above them.
        name: Function that adds titles to runs without names.
    """

    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-small"),
        (SMALL_COLUMNS, "-narrow"),
        (_WIDE_COLUMNS, "-wide"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "answer", "Answer"),
        Binding("m", "send", "Message"),
        Binding("s", "stop", "Stop"),
        Binding("t", "turn_filter(1)", "State"),
        Binding("T", "turn_filter(-1)", "Previous state", show=False),
        Binding("slash", "find", "Find", key_display="/"),
        Binding("n", "turn_page(True)", "Next"),
        Binding("p", "turn_page(False)", "Previous"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(self, runs: Runs, place: str = "") -> None:
        super().__init__(css_path=access_data("top", "screen.tcss"))
        self.board = Board()
        self.runs = runs
        self.feed = BoardFeed(runs, self.board)
        self._location = place
        self._drawn: tuple[View, int, int] | None = None
        self._rows: list[tuple[str, str]] = []
        self._texts: dict[str, str | Content] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="page", classes="line", markup=False)
        yield Static(id="trouble", classes="line", markup=False)
        with Container(id="body"):
            with Vertical(id="list"):
                yield Static(id="header", classes="line", markup=False)
                yield Static(id="empty", markup=False)
                yield OptionList(id="rows", markup=False)
            with Vertical(id="run"):
                yield Static(id="title", classes="line", markup=False)
                yield Static(id="status", classes="line", markup=False)
                yield Static(id="waiting", classes="line", markup=False)
                with VerticalScroll(id="course", can_focus=True):
                    yield Static(id="lines", classes="line", markup=False)
                yield Static(id="text", markup=False)
        yield Static(id="notice", classes="line", markup=False)
        yield Keys()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#course").anchor()
        self.query_one("#rows").focus()
        self.run_worker(self.feed.run())
        self.set_interval(_DRAW_SECONDS, self.draw)

    # --- drawing ---------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw the changes, including ages."""
        if not self.screen_stack[0].query("#rows"):
            return  # the application is shutting down
        self._take_selection()
        self._close_answered()
        view, now = self.board.view, datetime.now(UTC)
        list_width = self._find("#rows").scrollable_content_region.width - 2
        state = (view, list_width, int(now.timestamp() / _AGE_SECONDS))
        if self._drawn == state or list_width < 1:
            return
        before = self._drawn[0] if self._drawn else None
        self._drawn = state
        self._write("#page", screen_texts.describe_page(view, self._location))
        self._write("#trouble", screen_texts.describe_trouble(view), hides=True)
        self._write("#notice", screen_texts.flatten(view.notice))
        self._draw_rows(view, list_width, now)
        self._draw_run(view, before)
        self.refresh_bindings()

    def _find(self, selector: str) -> Any:
        return self.screen_stack[0].query_one(selector)

    def _write(self, selector: str, text: str | Content, *, hides: bool = False) -> None:
        if self._texts.get(selector) != text:
            self._texts[selector] = text
            widget = self._find(selector)
            widget.update(text)
            if hides:
                widget.display = bool(text)

    def _draw_rows(self, view: View, columns: int, now: datetime) -> None:
        self._write("#header", screen_texts.compose_header(columns))
        self._write("#empty", screen_texts.describe_nothing(view), hides=True)
        rows = [(each.id, screen_texts.compose_row(each, columns, now)) for each in view.shown]
        options: OptionList = self._find("#rows")
        contents = [_colour(each, row) for each, (_, row) in zip(view.shown, rows, strict=True)]
        if [identity for identity, _ in rows] == [identity for identity, _ in self._rows]:
            for index, (old, new) in enumerate(zip(self._rows, rows, strict=True)):
                if old != new:
                    options.replace_option_prompt_at_index(index, contents[index])
        else:
            scroll_position = options.scroll_offset.y
            identities = [identity for identity, _ in rows]
            options.set_options(
                Option(content, id=identity)
                for identity, content in zip(identities, contents, strict=True)
            )
            options.scroll_to(y=scroll_position, animate=False)
            # The selected run may not be listed: a page that is not read yet has no rows.
            is_listed = view.selected in identities
            options.highlighted = identities.index(view.selected) if is_listed else None
        self._rows = rows

    def _draw_run(self, view: View, before: View | None) -> None:
        summary = view.summary
        title, status = screen_texts.describe_head(summary) if summary else ("", "")
        activity = screen_texts.describe_activity(view)
        self._write("#title", title)
        self._write("#status", " · ".join(filter(None, (activity, status))))
        self._write("#waiting", screen_texts.describe_waiting(view, self._location), hides=True)
        if before is None or before.course.lines != view.course.lines:
            self._write("#lines", _compose_course(view))
        self._write("#text", sanitize(view.course.text.strip()), hides=True)
        if before is None or before.selected != view.selected:
            self._find("#course").anchor()

    # --- keys ------------------------------------------------------------------------------------

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._take_selection()

    def _take_selection(self) -> None:
        """Select the highlighted row, before rows are drawn again, so that no keypress is lost."""
        option = self._find("#rows").highlighted_option
        selected = self._drawn[0].selected if self._drawn else ""
        if option is not None and option.id not in (selected, self.board.view.selected):
            self.board.update(RunSelected(option.id))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if len(self.screen_stack) > 1:
            return action == "quit"
        view = self.board.view
        match action, parameters:
            case "answer", _:
                return bool(view.waiting)
            case "send", _:
                return view.summary is not None
            case "stop", _:
                return view.summary is not None and view.summary.state not in RESTS
            case "turn_page", (True,):
                return view.has_more
            case "turn_page", (False,):
                return bool(view.query.passed)
        return True

    def action_turn_filter(self, step: int) -> None:
        """Filter by the next or previous state."""
        index = FILTERS.index(self.board.view.query.state)
        self.board.update(FilterChosen(FILTERS[(index + step) % len(FILTERS)]))

    def action_turn_page(self, forward: bool) -> None:
        """Show the next or previous page."""
        self.board.update(PageTurned(forward))

    def action_find(self) -> None:
        """Ask for words to filter the runs."""
        question = "Filter the runs of this page; empty for all"
        current = self.board.view.words

        def on_close(text: str | None) -> None:
            if text is not None:
                self.board.update(WordsChosen(text))

        self.push_screen(LineScreen(question, current), on_close)

    # --- messages to the selected run ------------------------------------------------------------

    def action_answer(self) -> None:
        """Show the first waiting call, and send the user's answer."""
        run_id, (waiting, *other_calls) = self.board.view.selected, self.board.view.waiting
        name = screen_texts.flatten(waiting.request.name)

        async def send(approval: Approval) -> None:
            try:
                await self.runs.approve(run_id, approval, key=waiting.key)
            except UnknownNameError:
                self._notice(f"Too late: another answer for {name} arrived first and applies.")
            else:
                self._notice(f"{ANSWERED[approval.decision]}: {name}")

        def on_close(approval: Approval | None) -> None:
            if approval is not None:
                self._perform(send(approval))

        self.push_screen(ApprovalScreen(waiting, len(other_calls)), on_close)

    def _close_answered(self) -> None:
        """Close the dialog of a call that was answered elsewhere, and report it."""
        dialogs = [each for each in self.screen_stack if isinstance(each, ApprovalScreen)]
        still_waiting = {(each.conversation_id, each.key) for each in self.board.view.waiting}
        for screen in dialogs:
            waiting = screen.waiting
            if (waiting.conversation_id, waiting.key) not in still_waiting:
                name = screen_texts.flatten(waiting.request.name)
                self._notice(f"{name} no longer awaits approval: it has been answered.")
                while self.screen is not screen:  # close the dialogs in front of it
                    self.pop_screen()
                screen.dismiss(None)

    def action_send(self) -> None:
        """Ask for a message to the run."""
        run_id = self.board.view.selected

        async def send(text: str) -> None:
            await self.runs.send(run_id, UserCanister(text))
            self._notice("Sent: the model reads it at its next request.")

        def on_close(text: str | None) -> None:
            if text and text.strip():
                self._perform(send(repair(text)))

        self.push_screen(LineScreen(f"Message to {run_id[:8]}"), on_close)

    def action_stop(self) -> None:
        """Ask whether to stop the run."""
        run_id = self.board.view.selected

        async def stop(reason: str) -> None:
            await self.runs.stop(run_id, reason=reason)
            self._notice(f"Stopping {run_id[:8]}.")

        def on_close(reason: str | None) -> None:
            if reason is not None:
                self._perform(stop(repair(reason)))

        question = f"Reason to stop {run_id[:8]} (shown with the run)"
        self.push_screen(LineScreen(question), on_close)

    def _perform(self, work: Coroutine[Any, Any, None]) -> None:
        """Send a message to a run, and report the result."""

        async def perform() -> None:
            try:
                await work
            except (ConverseError, OSError) as error:
                self._notice(str(error))
            self.feed.poll_now()

        self.run_worker(perform())

    def _notice(self, text: str) -> None:
        self.board.update(NoticeSet(text))


def _colour(summary: RunSummary, row: str) -> Content:
    """Colour the state of a run at the start of its row."""
    return Content(row).stylize(_STYLES.get(summary.tone, ""), 0, len(summary.tone))


def _compose_course(view: View) -> Content:
    """Format the events of a run."""
    course = view.course
    lines = [Content(screen_texts.describe_line(each)) for each in course.lines]
    if course.after:
        lines.insert(0, Content(f"   …  {write_count(course.after, 'event')} before"))
    return Content("\n").join(lines)
