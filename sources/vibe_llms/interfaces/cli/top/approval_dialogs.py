"""Dialogs that show a call that awaits approval, and ask for the answer."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static, TextArea

from vibe_llms.interfaces.cli.approving import parse_arguments, write_arguments, write_head
from vibe_llms.interfaces.cli.output import reveal
from vibe_llms.interfaces.cli.top.keys import Keys
from vibe_llms.interfaces.cli.top.line_dialogs import LineScreen
from vibe_llms.invocables.approvals import Approval, Scope, allow, deny, edit
from vibe_llms.runs.waiting import Waiting


class ApprovalScreen(ModalScreen[Approval | None]):
    """Dialog that asks to approve a call; returns ``None`` if the user leaves with Escape.

    Keys that are pressed before it is drawn are ignored: the user has not seen the call yet.

    Args:
        waiting: The call.
        others: Number of other waiting calls.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "allow('once')", "Once"),
        Binding("a", "allow('call')", "Always this call"),
        Binding("r", "refuse", "Refuse"),
        Binding("n", "refuse_all", "Never"),
        Binding("e", "edit", "Edit"),
        Binding("escape", "leave", "Leave"),
    ]

    def __init__(self, waiting: Waiting, others: int = 0) -> None:
        super().__init__()
        self.waiting = waiting
        self._others = others
        self._is_drawn = False

    def compose(self) -> ComposeResult:
        request = self.waiting.request
        more = f" · {self._others} more" if self._others else ""
        about = f"Effect: {request.effect}{more}"
        with Vertical(id="call"):
            yield Static(write_head(request), classes="head", markup=False)
            yield Static(reveal(about), classes="about", markup=False)
            with VerticalScroll(id="arguments", can_focus=True):
                yield Static(write_arguments(request), markup=False)
            yield Keys()
            yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#arguments").focus()
        self.call_after_refresh(self._note_drawn)

    def _note_drawn(self) -> None:
        self._is_drawn = True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._is_drawn or action not in ("allow", "refuse", "refuse_all", "edit")

    def action_leave(self) -> None:
        """Leave without an answer."""
        self.dismiss(None)

    def action_allow(self, scope: str) -> None:
        """Approve the call unchanged."""
        self.dismiss(allow(self.waiting.request, scope=Scope(scope)))

    def action_refuse(self) -> None:
        """Deny the call once."""
        self._ask_reason(Scope.ONCE)

    def action_refuse_all(self) -> None:
        """Deny the call and all identical ones."""
        self._ask_reason(Scope.CALL)

    def _ask_reason(self, scope: Scope) -> None:
        def on_close(reason: str | None) -> None:
            if reason is not None:
                self.dismiss(deny(self.waiting.request, reason, scope=scope))

        self.app.push_screen(LineScreen("Reason for the model (Enter for none)"), on_close)

    def action_edit(self) -> None:
        """Approve the call with other arguments."""

        def on_close(approval: Approval | None) -> None:
            if approval is not None:
                self.dismiss(approval)

        self.app.push_screen(EditScreen(self.waiting), on_close)


class EditScreen(ModalScreen[Approval | None]):
    """Dialog for other arguments; returns ``None`` if the user leaves with Escape.

    Args:
        waiting: The call.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "take", "Allow this instead", priority=True),
        Binding("escape", "leave", "Leave", priority=True),
    ]

    def __init__(self, waiting: Waiting) -> None:
        super().__init__()
        self._request = waiting.request

    def compose(self) -> ComposeResult:
        with Vertical(id="call"):
            yield Static(write_head(self._request), classes="head", markup=False)
            yield TextArea(write_arguments(self._request))
            yield Static("", classes="hint", id="mistake", markup=False)
            yield Keys()
            yield Footer(show_command_palette=False)

    def action_leave(self) -> None:
        """Leave without an answer."""
        self.dismiss(None)

    def action_take(self) -> None:
        """Accept the arguments if they are valid."""
        try:
            arguments = parse_arguments(self.query_one(TextArea).text)
        except ValueError as error:
            self.query_one("#mistake", Static).update(reveal(str(error)))
        else:
            self.dismiss(edit(self._request, arguments))
