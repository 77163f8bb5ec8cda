"""Input dialogs in front of the screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class LineScreen(ModalScreen[str | None]):
    """Dialog for a line of text; returns ``None`` if the user leaves with Escape.

    Args:
        question: The question.
        text: The initial text.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(self, question: str, text: str = "") -> None:
        super().__init__()
        self._question = question
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(id="question"):
            yield Static(self._question, markup=False)
            yield Input(self._text)
            yield Static("Enter: confirm. Escape: cancel.", classes="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)
