"""Where a key, a server or a package is missing, a chat says so at once and loses no words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.screens.chatting import RecordedOutput, TypedLines
from vibe_llms.application import Application
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.interfaces.cli.chat.console import ChatConsole
from vibe_llms.interfaces.cli.chat.loop import converse
from vibe_llms.interfaces.cli.chat.session import ChatSession
from vibe_llms.interfaces.cli.chat.statuses import ChatStatus
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.messages.views import text_of

Vibe = Callable[..., Any]

_ABSENT = """
[providers.absent]
module = "vibe_llms.providers.openai_compatible"
kind = "lmstudio"
base_url = "http://127.0.0.1:9/v1"
"""
"""A server that nobody has started."""


@pytest.fixture(autouse=True)
def configuration(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider without its server, no key of anybody's, and not every package."""
    file = home / ".config" / "vibe-llms" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(_ABSENT)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "boto3", None)  # the tests' own server brings it along


@pytest.fixture
def session(configuration: None) -> ChatSession:
    """A session with a model that repeats what it is told, and a store in memory."""
    return ChatSession(application=Application.load(), store=MemoryStore())


async def _chat(session: ChatSession, *lines: str, is_interactive: bool = True) -> RecordedOutput:
    output = RecordedOutput()
    await converse(ChatConsole(session, TypedLines(iter(lines), is_interactive), output))
    return output


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("-m", "openai"), ("-m", "gpt-5"), ("--provider", "openai"), ("--model=openai:o3",), ()],
)
def test_a_provider_is_called_what_the_person_calls_it(
    vibe: Vibe, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Its own name, in the error, the table and the command, would be news to them."""
    monkeypatch.setenv("VIBE_LLMS_MODEL", "scripted:echo" if words else "openai")

    outcome = vibe("ask", *words, "Hi")

    assert "The key for openai is missing." in outcome.err
    assert "[providers.openai]" in outcome.err
    assert "vibe credentials set openai" in outcome.err
    assert "openai_responses" not in outcome.err
    assert "key for openai_responses is missing." in vibe("ask", "-m", "openai_responses", "Hi").err


@pytest.mark.parametrize(
    ("address", "missing", "remedy"),
    [
        ("anthropic", "key for anthropic", "vibe credentials set anthropic"),
        ("absent:some", "127.0.0.1:9", "Start it"),
        ("bedrock:some", "AWS_REGION", "Set AWS_REGION"),
        ("antropic", "antropic", "anthropic"),
    ],
)
async def test_a_model_that_cannot_be_asked_is_not_switched_to(
    session: ChatSession, address: str, missing: str, remedy: str
) -> None:
    """What is missing is said at once, with how it is had, and which model goes on."""
    output = await _chat(session, f"/model {address}", "Hello")

    assert missing in output.complaints[0]
    assert remedy in output.complaints[0]
    assert output.remarks == ["The model is still scripted:echo."]
    assert output.text == "<Hello>"


async def test_without_a_person_a_switch_that_fails_ends_the_chat(session: ChatSession) -> None:
    """In a pipe, what follows was meant for another model."""
    with pytest.raises(ConfigurationError, match="key for anthropic"):
        await _chat(session, "/model anthropic", "Hello", is_interactive=False)


@pytest.mark.parametrize("command", ["ask", "chat"])
@pytest.mark.parametrize("address", ["absent:some", "bedrock:some"])
def test_what_a_model_lacks_is_said_before_anything_is_stored(
    vibe: Vibe, command: str, address: str
) -> None:
    """A server or a setting that is missing as much as a key."""
    outcome = vibe(command, "-m", address, "Hello")

    assert outcome.code in (ExitCode.CONFIGURATION, ExitCode.PROVIDER)
    assert "Start it" in outcome.err or "Set AWS_REGION" in outcome.err
    assert vibe("list", "--json").read_json() == []


def test_a_model_is_not_called_ready_where_its_server_does_not_run(vibe: Vibe) -> None:
    """What `models pull` says of it is true."""
    outcome = vibe("models", "pull", "absent:some")

    assert outcome.code == ExitCode.PROVIDER
    assert "ready" not in outcome.err


async def test_a_question_that_could_not_be_sent_is_asked_again(session: ChatSession) -> None:
    """What was said is kept where not the words are to blame; /continue asks again."""
    await _chat(session, "Hello")
    session.address = "anthropic"

    output = await _chat(session, "Why?", "/continue")

    assert ["key for anthropic" in each for each in output.complaints] == [True, True]
    assert session.status is ChatStatus.UNANSWERED
    assert session.store is not None
    kept = Conversation.restore(session.store, session.conversation.id)
    assert [text_of(each) for each in kept.canisters] == ["Hello", "Hello", "Why?"]

    output = await _chat(session, "/model scripted:echo", "/continue")

    assert output.text == "<Why?>"


async def test_what_is_attached_goes_with_the_question_that_waits(
    session: ChatSession, home: Path
) -> None:
    """It is not lost with the answer that did not come."""
    (home / "note.txt").write_text("Buy milk.")
    session.address = "anthropic"

    await _chat(session, "/file note.txt", "What shall I buy?")

    assert [c.role for c in session.conversation.canisters] == ["document", "user"]


@pytest.mark.parametrize("stdin", [b"", b"\n \n"])
def test_a_chat_without_a_message_says_so(vibe: Vibe, stdin: bytes) -> None:
    """Standard input that is empty is a slip, as it is for `ask`; no conversation begins."""
    outcome = vibe("chat", stdin=stdin)

    assert outcome.code == ExitCode.USAGE
    assert "Standard input is empty" in outcome.err
    assert vibe("list", "--json").read_json() == []


def test_a_question_that_is_nowhere_is_told_with_where_it_may_be(vibe: Vibe) -> None:
    """Behind the command, or in standard input."""
    outcome = vibe("ask")

    assert outcome.code == ExitCode.USAGE
    assert "standard input is empty" in outcome.err


def test_a_batch_without_a_line_says_so(vibe: Vibe) -> None:
    """It did nothing, and nobody shall think that it did."""
    outcome = vibe("batch", "-", "-o", "out.jsonl")

    assert "Nothing was asked: the input is empty." in outcome.err


def test_a_server_behind_a_proxy_is_not_looked_for_here(vibe: Vibe, home: Path) -> None:
    """Who can reach it is the proxy; what this machine finds at the address says nothing."""
    with (home / ".config" / "vibe-llms" / "config.toml").open("a") as file:
        file.write('proxy = "http://proxy.example:3128"\n')

    rows = vibe("providers", "--json").read_json()

    assert next(row for row in rows if row["name"] == "absent")["missing"] == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("ask", "-m", "scripted:echo", "--mcp", "far", "Hello"), ExitCode.PROVIDER),
        (("chat", "-m", "scripted:echo", "--mcp", "far"), ExitCode.PROVIDER),
        (("tools", "list", "--mcp", "far"), ExitCode.PROVIDER),
        (("tools", "list"), 0),
    ],
)
def test_a_tool_server_that_cannot_be_reached_is_told_once(
    vibe: Vibe,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    arguments: tuple[str, ...],
    code: int,
) -> None:
    """For want of the package; the log, which a command writes to its errors, says nothing more."""
    file = home / ".config" / "vibe-llms" / "config.toml"
    file.write_text('[mcp.far]\nurl = "http://127.0.0.1:9/mcp"\n')
    monkeypatch.setitem(sys.modules, "mcp", None)
    for name in [each for each in sys.modules if each.startswith("mcp.")]:
        monkeypatch.delitem(sys.modules, name)

    outcome = vibe(*arguments)

    assert outcome.code == code
    logged = [record.getMessage() for record in caplog.records]
    told = [line for line in (*outcome.err.splitlines(), *logged) if "'far'" in line]
    assert len(told) == 1
    assert "need the package mcp" in told[0]
