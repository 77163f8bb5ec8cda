"""Read messages from a terminal: line editing, history, multiple lines, completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    PathCompleter,
    get_common_complete_suffix,
)
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from vibe_llms.interfaces.cli.chat.commands import COMMANDS


class SlashCompleter(Completer):
    """Completer of slash commands, models after ``/model`` and paths after ``/file``.

    Args:
        survey_models: Lists the addresses of models; called on first use.
    """

    def __init__(self, survey_models: Callable[[], Sequence[str]]) -> None:
        self._survey_models = survey_models
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """Yield the completions at the cursor."""
        before = document.text_before_cursor
        if not before.startswith("/") or "\n" in before:
            return
        word, space, argument = before.partition(" ")
        if not space:
            for command in COMMANDS.values():
                if command.name.startswith(word):
                    yield Completion(
                        command.name, start_position=-len(word), display_meta=command.summary
                    )
        elif word == "/model":
            for address in self._survey_models():
                if address.startswith(argument):
                    yield Completion(address, start_position=-len(argument))
        elif word in ("/file", "/image", "/export"):
            yield from self._paths.get_completions(Document(argument), event)


class TerminalInput:
    """``ChatInput`` for a terminal.

    Args:
        history: The file of earlier messages; ``None`` to keep no history.
        survey_models: Lists the addresses of models, for completion.
        settings: Further settings of the prompt session, such as a terminal for tests.
    """

    is_interactive = True

    def __init__(
        self,
        history: Path | None,
        survey_models: Callable[[], Sequence[str]],
        **settings: Any,
    ) -> None:
        self._session: PromptSession[str] = PromptSession(
            FormattedText([("bold ansicyan", "> ")]),
            multiline=True,  # Enter sends nevertheless: see the key bindings
            prompt_continuation=FormattedText([("", "  ")]),
            key_bindings=_produce_bindings(),
            history=_open_history(history),
            completer=SlashCompleter(survey_models),
            complete_while_typing=Condition(
                lambda: self._session.default_buffer.text.startswith("/")
            ),
            reserve_space_for_menu=4,
            enable_suspend=True,
            **settings,
        )

    async def read(self) -> str:
        """Return the user's input."""
        return await self._session.prompt_async()


def _open_history(path: Path | None) -> History:
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # messages are private
    except OSError:  # not reported here: the store reports that the folder is not writable
        return InMemoryHistory()
    return FileHistory(str(path))


def _produce_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("c-j")
    def send_line(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("tab")
    def complete(event: KeyPressEvent) -> None:
        # Completes immediately. The toolkit's own binding does nothing while it still searches for
        # completions, which it does after each key: "/he", Tab, Enter, typed quickly, would send
        # "/he".
        buffer = event.current_buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
            return
        requested = CompleteEvent(completion_requested=True)
        completions = list(buffer.completer.get_completions(buffer.document, requested))
        if len(completions) == 1:
            buffer.apply_completion(completions[0])
        elif completions:
            buffer.insert_text(get_common_complete_suffix(buffer.document, completions))
            buffer.start_completion()

    @bindings.add("escape", "enter")
    def start_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings
