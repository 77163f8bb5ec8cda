"""Consent and progress without a user: settled in advance, revoked, silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.foundation.attrs_classes import define, frozen

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.users import Consent


@frozen
class SettledConsent:
    """Gives an answer that was settled in advance, such as by the setting ``yes``."""

    answer: bool

    def ask(self, subject: str, question: str) -> bool:
        """Return the answer."""
        return self.answer


@define
class RevocableConsent:
    """Consent of a user, until it is revoked: a daemon asks nothing on behalf of its clients.

    Attributes:
        consent: Answers until then.
        is_revoked: True if every answer is no.
    """

    consent: Consent
    is_revoked: bool = False

    def ask(self, subject: str, question: str) -> bool:
        """Return whether the user agrees."""
        return not self.is_revoked and self.consent.ask(subject, question)


@frozen
class SilentProgress:
    """Shows nothing."""

    def start(self, total: int | None, label: str) -> None:
        """Show nothing."""

    def advance(self, amount: int) -> None:
        """Show nothing."""

    def finish(self) -> None:
        """Show nothing."""
