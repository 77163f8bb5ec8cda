"""Interfaces between a plugin and its user: consent, progress, commands."""

from __future__ import annotations

from typing import Protocol

from vibe_llms.foundation.attrs_classes import frozen


class Consent(Protocol):
    """Asks the user before code is fetched, installed or trusted, or a large file is fetched."""

    def ask(self, subject: str, question: str) -> bool:
        """Return whether the user agrees.

        Without a user to ask, the answer is no, unless the user has answered in advance (the
        setting ``yes``). The call may block until the user answers.

        Args:
            subject: An identifier of the question, such as ``weights:smollm2``, which is the same
                each time that the question is asked.
            question: One or two sentences about the action, its source and its size; they end in a
                question mark.
        """
        ...


class Progress(Protocol):
    """Shows the progress of a long operation. One operation at a time, from one thread."""

    def start(self, total: int | None, label: str) -> None:
        """Start showing an operation.

        Args:
            total: Total amount, in bytes for a transfer; ``None`` if unknown.
            label: The operation, in a few words.
        """
        ...

    def advance(self, amount: int) -> None:
        """Add to the completed amount, in the unit of the total."""
        ...

    def finish(self) -> None:
        """Stop showing the operation, also after a failure; always called after ``start``."""
        ...


@frozen
class CommandSpecification:
    """A command that is added to ``vibe``.

    Attributes:
        name: The word after ``vibe``. A shipped command cannot be replaced.
        summary: Its description, in one line for ``vibe --help``.
        reference: The function that implements it, as ``package.module:function``; imported when
            the command is used. It is called with the list of the arguments after the command's
            name, and returns the exit code, or ``None`` for 0.
    """

    name: str
    summary: str
    reference: str
