"""Implementations of consent and progress that do not involve the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.foundation.attrs_classes import define, frozen

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.users import Consent


@frozen
class SettledConsent:
    """Consent with a fixed answer, such as that of the setting ``yes``."""

    answer: bool

    def ask(self, subject: str, question: str) -> bool:
        """Return the answer."""
        return self.answer


@define
class RevocableConsent:
    """Consent that can be revoked; then every answer is no.

    A daemon revokes it, as its clients must not trigger questions to the user.

    Attributes:
        consent: Asks the user as long as it is not revoked.
        is_revoked: Whether every answer is no.
    """

    consent: Consent
    is_revoked: bool = False

    def ask(self, subject: str, question: str) -> bool:
        """Return whether the user agrees."""
        return not self.is_revoked and self.consent.ask(subject, question)


@frozen
class SilentProgress:
    """Progress that is not shown."""

    def start(self, total: int | None, label: str) -> None:
        """Show nothing."""

    def advance(self, amount: int) -> None:
        """Show nothing."""

    def finish(self) -> None:
        """Show nothing."""
