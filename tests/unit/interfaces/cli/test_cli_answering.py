"""What an MCP server asks, a person answers at the terminal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.screens.keyboards import type_answers
from vibe_llms.interfaces.cli.elicitation import TerminalElicitor
from vibe_llms.invocables.mcp.elicitation import Action, FieldOption, FormField, Question

FIELDS = (
    FormField(name="name", kind="text", is_required=True),
    FormField(name="age", kind="integer"),
    FormField(name="fresh", kind="boolean"),
    FormField(
        name="colour",
        kind="choice",
        choices=(FieldOption("red", "Red"), FieldOption("blue", "Blue")),
    ),
    FormField(name="tags", kind="choices", choices=(FieldOption("a", "A"), FieldOption("b", "B"))),
)
FORM = Question(server="shop", message="Who \x1b[31mare you?", fields=FIELDS)


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Types lines, one for each question."""

    def type_lines(*lines: str) -> None:
        type_answers(monkeypatch, *lines)

    return type_lines


async def test_values_are_what_their_kinds_say(
    answer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers, yes and no, lists; and what is left out stays out."""
    answer("Ben", "41", "yes", "", "a, b")

    given = await TerminalElicitor(has_user=lambda: True).elicit(FORM)

    assert given.action is Action.ACCEPT
    assert given.values == {"name": "Ben", "age": 41, "fresh": True, "tags": ["a", "b"]}
    shown = capsys.readouterr().err
    assert "shop asks" in shown
    assert "\x1b" not in shown
    assert "[red, blue]" in shown


async def test_a_person_can_refuse_in_the_middle(answer: Callable[..., None]) -> None:
    """Then the server gets nothing of what was typed before."""
    answer("Ben", "/no")

    given = await TerminalElicitor(has_user=lambda: True).elicit(FORM)

    assert given.action is Action.DECLINE
    assert not given.values


@pytest.mark.parametrize(
    ("typed", "action"),
    [
        ([""], Action.ACCEPT),
        (["Yes"], Action.ACCEPT),
        (["no"], Action.DECLINE),
        (["what?"], Action.DECLINE),
        ([], Action.CANCEL),
    ],
)
async def test_an_address_is_shown_and_not_opened(
    answer: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    typed: list[str],
    action: Action,
) -> None:
    """The person goes there, or does not; a terminal that is gone has not been there."""
    answer(*typed)
    question = Question(server="shop", message="Log in.", address="https://shop.example/login")

    given = await TerminalElicitor(has_user=lambda: True).elicit(question)

    assert given.action is action
    assert "https://shop.example/login" in capsys.readouterr().err


async def test_the_end_of_the_input_is_no_answer(answer: Callable[..., None]) -> None:
    """Nobody has agreed to the defaults of what was not asked any more."""
    answer("Ben")

    given = await TerminalElicitor(has_user=lambda: True).elicit(FORM)

    assert given.action is Action.CANCEL
    assert not given.values


async def test_without_a_person_everything_is_declined() -> None:
    """Nobody types for them."""
    given = await TerminalElicitor(has_user=lambda: False).elicit(FORM)

    assert given.action is Action.DECLINE
