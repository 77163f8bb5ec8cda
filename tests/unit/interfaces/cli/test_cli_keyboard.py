"""Lines are read from a person in one way, which nothing can hang."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
import tty
from contextvars import copy_context

import pytest

from support.screens.keyboards import Keyboard
from vibe_llms.interfaces.cli.consent import TerminalConsent
from vibe_llms.interfaces.cli.interrupts import access_interruption, begin_work, run
from vibe_llms.interfaces.cli.keyboard import (
    ask_line,
    ask_line_async,
    discard_typed_text,
    read_answer,
)


@pytest.fixture
def raw(keyboard: Keyboard) -> Keyboard:
    """A terminal as the editor of the chat leaves it to those who run beside it."""
    tty.setraw(keyboard._stdin.fileno())
    return keyboard


def test_a_line_is_read_whatever_mode_the_terminal_is_in(raw: Keyboard) -> None:
    """It is edited as lines are, Enter ends it, and the mode is then what it was."""
    raw.plug_in()
    former = raw.read_modes()
    raw.answer("Yes? ", "oh\x7fk\r")

    assert ask_line("Yes? ") == "ok"
    assert raw.read_modes() == former


def test_a_line_is_in_the_letters_that_were_typed(keyboard: Keyboard) -> None:
    """Whatever they are."""
    keyboard.plug_in()
    keyboard.answer("Who? ", "Zoë 東京 🎉\n")

    assert ask_line("Who? ") == "Zoë 東京 🎉"


def test_the_end_of_the_input_is_an_answer_without_words(keyboard: Keyboard) -> None:
    """Ctrl-D says no more than Enter does."""
    keyboard.plug_in()
    keyboard.answer("Who? ", "\x04")

    assert ask_line("Who? ") == ""


def test_a_line_that_control_c_took_away_is_not_waited_for(
    keyboard: Keyboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system said that there is one, and when it was read there was none."""
    keyboard.plug_in()
    looked = []

    def claim_line(*arguments: object) -> tuple[list[int], list[int], list[int]]:
        looked.append(1)
        if len(looked) > 3:
            access_interruption().set()
        return [1], [], []

    monkeypatch.setattr(select, "select", claim_line)

    with begin_work():
        assert read_answer("") == ""


def test_the_end_of_some_work_ends_the_questions_of_its_threads(raw: Keyboard) -> None:
    """A provider asks from a thread, which leaves the terminal before the work has ended."""
    raw.plug_in()
    former = raw.read_modes()
    consent = TerminalConsent()
    answers: list[bool] = []
    with begin_work():
        ask = copy_context().run
        thread = threading.Thread(
            target=ask, args=(lambda: answers.append(consent.ask("x", "Fetch?")),)
        )
        thread.start()
        raw.wait_for("Fetch?")

    assert raw.read_modes() == former
    thread.join()
    assert answers == [False]
    raw.answer("Fetch?", "y\r")
    assert consent.ask("x", "Fetch?")  # what nobody answered is asked again


async def test_whoever_cancels_a_question_has_the_terminal_back(raw: Keyboard) -> None:
    """Nothing of what is typed afterwards is taken away."""
    raw.plug_in()
    asking = asyncio.ensure_future(ask_line_async("Sure? "))
    await asyncio.to_thread(raw.wait_for, "Sure? ")

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    raw.type("mine")

    assert os.read(raw._stdin.fileno(), 100) == b"mine"


def test_control_c_ends_a_question_that_holds_up_the_loop(keyboard: Keyboard) -> None:
    """Though nothing can be cancelled meanwhile."""
    keyboard.plug_in()

    async def ask() -> None:
        def interrupt() -> None:
            keyboard.wait_for("Fetch?")
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        TerminalConsent().ask("x", "Fetch?")

    with pytest.raises(KeyboardInterrupt):
        run(ask())


def test_what_was_typed_before_is_forgotten(keyboard: Keyboard) -> None:
    """A question is answered by those who have seen it."""
    keyboard.plug_in()
    keyboard.type("y\n")
    select.select([keyboard._stdin], [], [])

    discard_typed_text()

    assert not select.select([keyboard._stdin], [], [], 0)[0]


def test_a_press_at_the_last_moment_is_not_lost() -> None:
    """It came too late to cancel anything, and whoever pressed it wants to leave."""

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(work())
