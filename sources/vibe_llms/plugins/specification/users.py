"""What stands between a plugin and its user: questions, progress, commands of its own."""

from __future__ import annotations

from typing import Protocol

from vibe_llms.foundation.attrs_classes import frozen


class Consent(Protocol):
    """Asks the user before code is fetched, installed or trusted, or much is downloaded."""

    def ask(self, subject: str, question: str) -> bool:
        """Returns whether the user agrees.

        Without a user to ask, the answer is no, unless the user has answered in advance
        (the setting ``yes``). The call may block for as long as the user thinks.

        Args:
            subject: A stable word for what is asked about, such as ``weights:smollm2``: the
                same question has the same subject.
            question: One or two sentences which say what would happen, from where, and how
                large it is; they end in a question mark.
        """
        ...


class Progress(Protocol):
    """Shows how far long work has come. One piece of work at a time, from one thread."""

    def start(self, total: int | None, label: str) -> None:
        """Begins to show a piece of work.

        Args:
            total: How much there is to do, in bytes for a transfer; ``None`` if unknown.
            label: What is being done, in a few words.
        """
        ...

    def advance(self, amount: int) -> None:
        """Adds to what is done, in the unit of the total."""
        ...

    def finish(self) -> None:
        """Ends the showing, also when the work failed; always called after ``start``."""
        ...


@frozen
class CommandSpecification:
    """A command that is added to ``vibe``.

    Attributes:
        name: The word after ``vibe``. A command that ships cannot be replaced.
        summary: What it does, in one line for ``vibe --help``.
        reference: The function that performs it, as ``package.module:function``; imported
            when the command is used. It is called with the list of the arguments after the
            command's name, and returns the exit code, or ``None`` for 0.
    """

    name: str
    summary: str
    reference: str
