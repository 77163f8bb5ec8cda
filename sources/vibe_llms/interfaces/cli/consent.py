"""Asks for consent on the terminal."""

from __future__ import annotations

import sys
import threading

import attrs

_POLL_SECONDS = 0.1


@attrs.define
class TerminalConsent:
    """Asks once for each subject; without a terminal the answer is no, unless given before.

    Attributes:
        yes: Whether every question counts as answered with yes.
    """

    yes: bool = False
    _answers: dict[str, bool] = attrs.field(factory=dict, init=False)

    def ask(self, subject: str, question: str) -> bool:
        """Returns whether the user agrees."""
        if self.yes:
            return True
        if subject not in self._answers:
            self._answers[subject] = can_ask() and confirm(question)
        return self._answers[subject]


def can_ask() -> bool:
    """Tells whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Asks a question that is answered with yes or no; whatever is not yes is no."""
    from vibe_llms.interfaces.cli.output import sanitize

    sys.stderr.write(f"{sanitize(question)} [y/N] ")
    sys.stderr.flush()
    answer = read_answer()
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    return answer.strip().lower() in ("y", "yes")


def read_answer() -> str:
    """Reads a line; a thread that waits for one gives up when the user presses Ctrl-C."""
    if threading.current_thread() is threading.main_thread() or sys.platform == "win32":
        return sys.stdin.readline()
    import select

    from vibe_llms.interfaces.cli.interrupts import was_interrupted

    while not was_interrupted():
        if select.select([sys.stdin], [], [], _POLL_SECONDS)[0]:
            return sys.stdin.readline()
    return ""


def require_consent(question: str, *, remedy: str) -> None:
    """Asks before something is destroyed.

    Raises:
        TrustError: The user said no, or there is nobody to ask.
    """
    from vibe_llms.exceptions import Stage, TrustError

    if not can_ask():
        raise TrustError(
            detail="Nobody can be asked for consent here.", remedy=remedy, stage=Stage.STORE
        )
    if not confirm(question):
        raise TrustError(detail="Nothing was changed.", stage=Stage.STORE)
