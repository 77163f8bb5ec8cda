"""Key bindings of a screen over several lines, if a footer is too narrow for them."""

from __future__ import annotations

from typing import Final

from textual.screen import Screen
from textual.widgets import Static

SMALL_COLUMNS: Final = 70
"""Minimum width at which the keys of each screen fit into a footer of one line."""


class Keys(Static):
    """Display of the active key bindings, for terminals that are too narrow for a footer."""

    DEFAULT_CSS = """
    Keys { height: auto; display: none; color: $text-muted; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)

    def on_mount(self) -> None:
        """Subscribe to changes of the active key bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._show_bindings)
        self._show_bindings(self.screen)

    def _show_bindings(self, screen: Screen[object]) -> None:
        active = [each for each in screen.active_bindings.values() if each.enabled]
        self.update(
            "  ".join(
                f"{self.app.get_key_display(each.binding)} {each.binding.description}"
                for each in active
                if each.binding.show
            )
        )
