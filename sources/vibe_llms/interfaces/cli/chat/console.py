"""Console of a chat: conversation, input and display."""

from __future__ import annotations

from typing import Final, Protocol, TextIO

from vibe_llms.exceptions import ConverseError, RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.instruments.attachments import ensure_readable
from vibe_llms.interfaces.cli.accounting import summarize
from vibe_llms.interfaces.cli.chat.output import ChatOutput
from vibe_llms.interfaces.cli.chat.session import INPUT_ROLES, ChatSession
from vibe_llms.interfaces.cli.chat.statuses import ChatStatus
from vibe_llms.interfaces.cli.chat.turns import answer, describe_waiting
from vibe_llms.interfaces.cli.errors import compose_lines
from vibe_llms.interfaces.cli.interrupts import run_interruptibly
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.telemetry.measuring import measure_canisters

_LINE_CHARACTERS: Final = 20_000_000


class ChatInput(Protocol):
    """Source of the user's messages.

    Attributes:
        is_interactive: Whether the user can see an error and continue.
    """

    is_interactive: bool

    async def read(self) -> str:
        """Wait for the next message or slash command.

        Raises:
            EOFError: The input has ended.
            KeyboardInterrupt: The user pressed Ctrl-C while the chat was idle.
        """


@define
class PlainInput:
    """Lines of a file or a pipe as messages; empty ones are skipped."""

    _file: TextIO
    is_interactive: bool = False

    async def read(self) -> str:
        """Return the next line. Raises RequestError if it is too long.

        Blocks the event loop on purpose: the chat is idle, and a reading thread could not be
        cancelled.
        """
        from vibe_llms.interfaces.cli.interrupts import block

        with block():
            while line := self._file.readline(_LINE_CHARACTERS + 1):
                if len(line) > _LINE_CHARACTERS:
                    raise RequestError(
                        path="-",
                        detail="A line of standard input has more than "
                        f"{_LINE_CHARACTERS:,} characters.",
                        remedy="Attach the text as a file.",
                    )
                if line.strip():
                    return ensure_readable(line.rstrip("\r\n"), "Standard input")
        raise EOFError


@define
class ChatConsole:
    """Console of a chat: gets answers, and shows errors and notices.

    Attributes:
        session: The conversation.
        input: Source of messages.
        output: Display.
    """

    session: ChatSession
    input: ChatInput
    output: ChatOutput

    async def answer(self) -> None:
        """Get the model's answer until Ctrl-C; keep the received part in either case."""
        try:
            result = await run_interruptibly(answer(self.session, self.output))
        except KeyboardInterrupt:
            if not self.input.is_interactive:
                raise
            last = self.session.conversation.last_message
            if last is None or last.role in INPUT_ROLES:
                self.output.remark("Stopped before an answer arrived; /continue asks again.")
            else:
                self.output.remark(
                    "Stopped. The beginning was stored; /continue continues it, /retry answers "
                    "again."
                )
            return
        if result.waiting:
            raise describe_waiting(self.session, result.waiting)
        if result.cut:
            is_finished = self.session.status is ChatStatus.FINISHED
            hint = "" if is_finished else " /continue continues it."
            self.output.remark(f"{result.cut}{hint}")
        if any(isinstance(canister, InvocationCanister) for canister in result.canisters):
            self.output.remark(summarize(measure_canisters(result.canisters)))

    def show_error(self, error: ConverseError) -> None:
        """Show an error."""
        for line in compose_lines(error):
            self.output.show_error(line)

    def show_notices(self) -> None:
        """Show the store's notices."""
        for notice in self.session.take_notices():
            self.output.remark(notice)
