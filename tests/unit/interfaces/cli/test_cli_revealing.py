"""What somebody shall agree to is shown whole: nothing in it is invisible, reordered or hidden."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.screens.keyboards import Keyboard, type_answers
from vibe_llms.interfaces.cli.approving import TerminalApprover
from vibe_llms.interfaces.cli.chat.output import describe_canister, describe_invocation
from vibe_llms.interfaces.cli.consent import confirm
from vibe_llms.interfaces.cli.elicitation import TerminalElicitor
from vibe_llms.interfaces.cli.output import reveal, sanitize
from vibe_llms.invocables.approvals import produce_approval_request
from vibe_llms.invocables.mcp.elicitation import FieldOption, FormField, Question
from vibe_llms.messages.canisters import InvocationCanister

HIDDEN = [
    "\u202e", "\u2066", "\u2069", "\u200b", "\u200f", "\u061c", "\x85", "\x9b", "\x1b", "\x7f",
    "\u2028", "\u2029", "\u00a0", "\u00ad", "\u034f", "\u115f", "\u180e", "\u2060", "\u2800",
    "\u3164", "\ufeff", "\ufe0f", "\ufff9", "\U000e0041", "\U000e0100", "\U0001d173", "\r",
]  # fmt: skip
EVERY_HIDDEN = "".join(HIDDEN)


def is_hidden_in(text: str) -> bool:
    """Tells whether a character was written that nobody sees."""
    return any(letter in text for letter in HIDDEN)


@pytest.mark.parametrize("letter", HIDDEN, ids=lambda letter: f"U+{ord(letter):04X}")
def test_what_cannot_be_seen_is_shown_as_an_escape(letter: str) -> None:
    """As JSON has it, so that arguments stay the same JSON."""
    shown = reveal(f"rm{letter}x")

    assert shown.isprintable()
    assert letter not in shown
    assert json.loads(f'"{shown}"') == f"rm{letter}x"


_UNSEEN_NAMES = re.compile(
    "ZERO WIDTH|INVISIBLE|VARIATION SELECTOR|GRAPHEME JOINER|PATTERN BLANK|INHERENT|HANGUL.*FILLER"
)


@pytest.mark.slow
def test_no_character_is_invisible_by_its_name() -> None:
    """Whatever Unicode calls so, in the whole of it, is shown."""
    unseen = {
        name
        for letter in map(chr, range(sys.maxunicode + 1))
        if _UNSEEN_NAMES.search(name := unicodedata.name(letter, "")) and reveal(letter) == letter
    }

    assert not unseen


@given(st.text())
def test_what_was_revealed_says_the_same(text: str) -> None:
    """One line, each character to be seen; read as JSON it is what it was."""
    shown = reveal(text)

    assert shown.isprintable()
    quoted = json.dumps(text, ensure_ascii=False)
    assert json.loads(reveal(quoted)) == text


@pytest.mark.parametrize(
    "text", ["plain", "Zoë", "東京", "مرحبا بالعالم", "שלום", "नमस्ते", "e\u0301", "🎉", "C:\\x"]
)
def test_what_can_be_seen_stays(text: str) -> None:
    """In whatever script."""
    assert reveal(text) == text


@pytest.mark.parametrize(
    "text", ["👩\u200d💻", "مرحبا\u200f!", "ب\u200cب", "❤\ufe0f", "🏴\U000e0067"]
)
def test_answers_keep_what_joins_and_marks_letters(text: str) -> None:
    """An answer is read, and nobody agrees to it: emoji and scripts are as they shall be."""
    assert sanitize(text) == text


@pytest.mark.parametrize("letter", ["\u202a", "\u202e", "\u2066", "\u2069", "\u2028", "\x9b"])
def test_nothing_reorders_what_else_is_on_the_screen(letter: str) -> None:
    """Not even an answer."""
    assert letter not in sanitize(f"a{letter}b")


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Types lines, one for each question."""
    return lambda *lines: type_answers(monkeypatch, *lines)


@pytest.mark.parametrize("lines", [["o"], ["e", "{}"], ["e", "{oops", "o"], ["s", "o"]])
async def test_an_approval_shows_what_will_run(
    answer: Callable[..., None], capsys: pytest.CaptureFixture[str], lines: list[str]
) -> None:
    """Its name, its purpose and its arguments, also whole, and also where they shall be edited."""
    answer(*lines)
    request = produce_approval_request(
        "a",
        f"run{EVERY_HIDDEN}",
        {"command": f"ls {EVERY_HIDDEN}", EVERY_HIDDEN: "x" * 5_000 + EVERY_HIDDEN},
        description=f"Runs {EVERY_HIDDEN}.",
    )

    await TerminalApprover(has_user=lambda: True).approve(request)

    shown = capsys.readouterr().err
    assert not is_hidden_in(shown)
    assert r"\u202e" in shown


async def test_a_server_hides_nothing_in_its_question(
    answer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in its name nor in what it says, and no line of it passes for a line of ours."""
    answer("", "", "")
    choices = (FieldOption(f"red{EVERY_HIDDEN}", "Red"),)
    field = FormField(
        name=f"n{EVERY_HIDDEN}", kind="choice", description=EVERY_HIDDEN, choices=choices
    )
    form = Question(
        server=f"shop{EVERY_HIDDEN}",
        message=f"Who{EVERY_HIDDEN}?\nvibe: all is well",
        fields=(field,),
    )
    link = Question(
        server="shop", message=EVERY_HIDDEN, address=f"https://shop.example/{EVERY_HIDDEN}"
    )

    for question in (form, link):
        await TerminalElicitor(has_user=lambda: True).elicit(question)

    shown = capsys.readouterr().err
    assert not is_hidden_in(shown)
    assert "\nvibe" not in shown
    assert r"shop.example/\u202e" in shown


def test_a_question_stands_in_one_line(keyboard: Keyboard) -> None:
    """What a folder or a plugin says of itself makes no lines of ours."""
    keyboard.plug_in()
    asked = f"Its description: nice{EVERY_HIDDEN}.\nDo you trust it?"
    shown: list[str] = []
    keyboard.answer("[y/N] ", "n\n", shown.append)

    confirm(asked)

    assert not is_hidden_in(shown[0])
    assert r"nice\u202e" in shown[0]
    assert "\n" not in shown[0]


def test_what_a_model_calls_is_told_as_it_is() -> None:
    """Where it needed no approval, that line is all that anybody sees of it."""
    canister = InvocationCanister(
        invocation_id="a",
        name="run",
        arguments=json.dumps({"command": EVERY_HIDDEN}, ensure_ascii=False),
    )

    assert not is_hidden_in(describe_invocation(canister))
    assert not any(is_hidden_in(text) for _, text in describe_canister(canister))
