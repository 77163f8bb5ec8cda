"""A model that acts, as a person at the terminal sees and steers it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from support.screens.keyboards import type_answers
from vibe_llms.application import Application
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.foundation.limits import Limits
from vibe_llms.interfaces.cli.approving import TerminalApprover
from vibe_llms.interfaces.cli.chat import turns
from vibe_llms.interfaces.cli.chat.console import ChatConsole
from vibe_llms.interfaces.cli.chat.loop import handle
from vibe_llms.interfaces.cli.chat.output import PlainOutput
from vibe_llms.interfaces.cli.chat.session import ChatSession
from vibe_llms.interfaces.cli.chat.statuses import ChatStatus
from vibe_llms.interfaces.cli.tooling import split_names
from vibe_llms.invocables import FunctionsEnsemble, produce_invoker
from vibe_llms.invocables.approvals import Decision, Scope, produce_approval_request
from vibe_llms.messages.views import text_of

_SCRIPT = """
[[responses]]
contents = [
  { reasoning = "I shall pay." },
  { invocation = { id = "a", name = "pay", arguments = '{"amount": 3}' } },
]

[[responses]]
contents = [{ text = "It is paid." }]
"""

REQUEST = produce_approval_request("a", "pay", {"amount": 3}, description="Pays an amount.")


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Types lines, one for each question."""

    def type_lines(*lines: str) -> None:
        type_answers(monkeypatch, *lines)

    return type_lines


def produce_approver(*allowed: str) -> TerminalApprover:
    return TerminalApprover(allowed, has_user=lambda: True)


@pytest.mark.parametrize(
    ("lines", "decision", "scope", "said"),
    [
        (["o"], Decision.ALLOW, Scope.ONCE, ""),
        (["a"], Decision.ALLOW, Scope.CALL, ""),
        (["n", "Too dear."], Decision.DENY, Scope.CALL, "Too dear."),
        ([""], Decision.DENY, Scope.ONCE, "declined"),
        (["what?", "o"], Decision.ALLOW, Scope.ONCE, ""),
        (["Once "], Decision.ALLOW, Scope.ONCE, ""),
        (["always"], Decision.ALLOW, Scope.CALL, ""),
        (["oh, wait", "yesterday", "all of it?", ""], Decision.DENY, Scope.ONCE, "declined"),
        (["e", '{"amount": 1}'], Decision.EDIT, Scope.ONCE, ""),
        (["e", '{"amount": NaN}', ""], Decision.DENY, Scope.ONCE, "declined"),
        (["e", "{oops", "e", "[]", ""], Decision.DENY, Scope.ONCE, "declined"),
    ],
)
async def test_what_is_typed_is_what_is_answered(
    answer: Callable[..., None], lines: list[str], decision: Decision, scope: Scope, said: str
) -> None:
    """Once, always for this call, never, edited; whatever is none of these is asked again."""
    answer(*lines)

    approval = await produce_approver().approve(REQUEST)

    assert (approval.decision, approval.scope) == (decision, scope)
    assert said in approval.reason
    assert approval.digest == REQUEST.digest
    if decision is Decision.EDIT:
        assert approval.arguments == '{"amount":1}'


async def test_nobody_at_the_terminal_allows_nothing() -> None:
    """But what was named beforehand."""
    absent = TerminalApprover(has_user=lambda: False)
    assert (await absent.approve(REQUEST)).decision is Decision.DENY

    named = TerminalApprover(["pay"], has_user=lambda: False)
    assert (await named.approve(REQUEST)).decision is Decision.ALLOW
    other = TerminalApprover(["pa"], has_user=lambda: False)
    assert (await other.approve(REQUEST)).decision is Decision.DENY
    # A run that is kept waits for whoever answers later.
    kept = TerminalApprover(["pa"], has_user=lambda: False, is_stored=True)
    assert await kept.approve(REQUEST) is None
    doubted = produce_approval_request("a", "pay", {"amount": 3}, in_doubt=True)
    assert await TerminalApprover(["all"], is_stored=True).approve(doubted) is None


async def test_what_may_have_happened_is_asked_about_whatever_is_allowed(
    answer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """To allow a call beforehand is not to allow it twice."""
    request = produce_approval_request("a", "pay", {"amount": 3}, in_doubt=True)
    answer("")

    approval = await produce_approver("all").approve(request)

    assert approval.decision is Decision.DENY
    assert "effect is unknown" in capsys.readouterr().err


async def test_one_question_is_asked_after_the_other(
    answer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever answers knows what; nobody else's call is shown in between."""
    answer("e", '{"amount": 1}', "o")
    other = produce_approval_request("b", "sell", {"amount": 3})

    first, second = await asyncio.gather(
        produce_approver().approve(REQUEST), produce_approver().approve(other)
    )

    shown = capsys.readouterr().err
    assert (
        shown.index("pay asks to") < shown.index("Arguments, as JSON") < shown.index("sell asks to")
    )
    assert (first.decision, second.decision) == (Decision.EDIT, Decision.ALLOW)


async def test_long_arguments_are_shown_whole_where_that_is_asked_for(
    answer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Their end could hide what matters."""
    request = produce_approval_request("a", "pay", {"note": "x" * 9000 + " and all to me"})
    answer("s", "")

    await produce_approver().approve(request)

    shown = capsys.readouterr().err
    assert shown.index("more characters") < shown.index("and all to me")


async def test_arguments_cannot_command_the_terminal(
    answer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor hide what comes after them."""
    answer("o")
    request = produce_approval_request("a", "pay", {"amount": "\x1b[2J\x9b1A\rharmless"})

    await produce_approver().approve(request)

    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\r" not in shown


@pytest.fixture
def session(home: Path) -> ChatSession:
    """A session whose model pays, and then says so."""
    (home / "script.toml").write_text(_SCRIPT)
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pays an amount."""
        paid.append(amount)
        return f"paid {amount}"

    return ChatSession(
        application=Application.load(),
        store=MemoryStore(),
        address=f"scripted:{home / 'script.toml'}",
        tools=(FunctionsEnsemble("bank", [produce_invoker(pay, needs_approval=True)]),),
    )


async def converse(session: ChatSession) -> tuple[str, str]:
    out, notes = io.StringIO(), io.StringIO()
    try:
        await session.open()
        await session.add_message("Pay!")
        await turns.answer(session, PlainOutput(out, notes))
    finally:
        await session.close()
    return out.getvalue(), notes.getvalue()


async def test_what_is_invoked_is_shown_folded(
    session: ChatSession, answer: Callable[..., None]
) -> None:
    """The call in one line, its result in one line, and then the answer."""
    answer("o")
    session.approver = produce_approver()

    out, notes = await converse(session)

    assert out == "It is paid.\n"
    assert '→ pay({"amount": 3})' in notes
    assert "← pay: paid 3" in notes
    roles = [canister.role for canister in session.conversation.canisters]
    assert roles == ["user", "assistant", "invocation", "result", "assistant"]


async def test_a_refusal_reaches_the_model(
    session: ChatSession, answer: Callable[..., None]
) -> None:
    """And nothing is executed."""
    answer("n", "Not today.")
    session.approver = produce_approver()

    _, notes = await converse(session)

    result = session.conversation.canisters[3]
    assert "Not today." in text_of(result)
    assert "✗ pay" in notes


async def test_a_limit_is_told_and_can_be_continued(
    session: ChatSession,
) -> None:
    """The conversation stays where it is, and goes on from there."""
    session.approver = produce_approver("all")
    session.limits = Limits(run_steps=1)

    out, notes = await converse(session)

    assert out == ""
    assert "run_steps = 1" in notes
    assert session.status is ChatStatus.UNFINISHED


async def test_a_chat_says_after_each_run_what_it_took(session: ChatSession) -> None:
    """In one line: how often the model was asked, and what it called."""
    session.approver = produce_approver("all")
    out, notes = io.StringIO(), io.StringIO()
    try:
        await session.open()
        await handle(ChatConsole(session, _Silent(), PlainOutput(out, notes)), "Pay!")
    finally:
        await session.close()

    assert notes.getvalue().rstrip().splitlines()[-1] == "2 answers, 1 call"


class _Silent:
    """Nobody types."""

    is_interactive = False

    async def read(self) -> str:
        raise EOFError


def test_names_are_parted_by_commas() -> None:
    """And each counts once."""
    assert split_names(["io, shell", "io", ""]) == ("io", "shell")
