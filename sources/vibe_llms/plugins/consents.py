"""Consent and progress where nobody can be asked and nobody watches."""

from __future__ import annotations

from vibe_llms.values import frozen


@frozen
class SettledConsent:
    """Gives the one answer that was settled in advance, such as by the setting ``yes``."""

    answer: bool

    def ask(self, subject: str, question: str) -> bool:
        """Returns the answer."""
        return self.answer


@frozen
class SilentProgress:
    """Shows nothing."""

    def start(self, total: int | None, label: str) -> None:
        """Shows nothing."""

    def advance(self, amount: int) -> None:
        """Shows nothing."""

    def finish(self) -> None:
        """Shows nothing."""
