"""Ask for consent on the terminal."""

from __future__ import annotations

import attrs

from vibe_llms.foundation.attrs_classes import define


@define
class TerminalConsent:
    """Asks for consent on the terminal, once per subject; without a terminal, it is denied.

    Attributes:
        yes: Whether to consent to everything without asking.
    """

    yes: bool = False
    _answers: dict[str, bool] = attrs.field(factory=dict, init=False)

    def ask(self, subject: str, question: str) -> bool:
        """Return whether the user agrees."""
        from vibe_llms.interfaces.cli.interrupts import access_interruption
        from vibe_llms.interfaces.cli.keyboard import can_ask

        if self.yes:
            return True
        if subject not in self._answers:
            answer = can_ask() and confirm(question)
            if access_interruption().is_set():  # an interruption is not an answer
                return False
            self._answers[subject] = answer
        return self._answers[subject]


def confirm(question: str) -> bool:
    """Ask a yes-no question; every answer other than yes means no."""
    from vibe_llms.interfaces.cli.keyboard import ask_line, discard_typed_text
    from vibe_llms.interfaces.cli.output import reveal

    discard_typed_text()
    return ask_line(f"{reveal(question)} [y/N] ").lower() in ("y", "yes")


def require_consent(question: str, *, remedy: str) -> None:
    """Ask for consent before data is deleted, or before a cost.

    Raises:
        TrustError: The user declined, or no user can be asked.
    """
    from vibe_llms.exceptions import Stage, TrustError
    from vibe_llms.interfaces.cli.keyboard import can_ask

    if not can_ask():
        raise TrustError(detail="No terminal to ask for consent.", remedy=remedy, stage=Stage.STORE)
    if not confirm(question):
        raise TrustError(detail="Nothing was changed.", stage=Stage.STORE)
