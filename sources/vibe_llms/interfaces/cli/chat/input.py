"""Where a chat's lines come from: the protocol, and the plain form of it for pipes."""

from __future__ import annotations

from typing import Protocol, TextIO

import attrs

from vibe_llms.interfaces.cli.attachments import ensure_readable


class ChatInput(Protocol):
    """What the user says next.

    Attributes:
        is_interactive: Whether somebody sits there who can be told of a mistake and go on.
    """

    is_interactive: bool

    async def read(self) -> str:
        """Waits for the next message or slash command.

        Raises:
            EOFError: There will be none.
            KeyboardInterrupt: The user pressed Ctrl-C while nothing was going on.
        """


@attrs.define
class PlainInput:
    """Each line of a file or a pipe; empty ones are passed over."""

    _file: TextIO
    is_interactive: bool = False

    async def read(self) -> str:
        """Returns the next line.

        Reading blocks the loop on purpose: nothing else is going on, and a thread that reads
        could not be stopped.
        """
        from vibe_llms.interfaces.cli.interrupts import block

        with block():
            while line := self._file.readline():
                if line.strip():
                    return ensure_readable(line.rstrip("\r\n"), "Standard input")
        raise EOFError
