"""A chat goes on: with what was cut, interrupted or left open, and beyond the model's window."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.runs import acting
from support.screens.chatting import RecordedOutput, TypedLines
from vibe_llms.application import Application
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.dialects.history import BEGUN
from vibe_llms.instruments.engines import Engine
from vibe_llms.interfaces.cli.chat.console import ChatConsole
from vibe_llms.interfaces.cli.chat.loop import converse
from vibe_llms.interfaces.cli.chat.session import ChatSession
from vibe_llms.interfaces.cli.chat.statuses import CONTINUE_MESSAGE, ChatStatus, read_status
from vibe_llms.invocables.ensembles import Ensemble, FunctionsEnsemble
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.views import text_of

Vibe = Callable[..., Any]

_SCRIPT = """
[[responses]]
match = "long"
contents = [{ text = "once upon a" }]
stop_reason = "limit"

[[responses]]
match = "Continue where you stopped"
contents = [{ text = "time" }]

[[responses]]
match = "filtered"
contents = []
stop_reason = "filtered"

[[responses]]
match = "failed"
contents = [{ text = "half of" }]
stop_reason = "failed"

[[responses]]
match = "pondered"
contents = [{ reasoning = "Hm." }]
stop_reason = "limit"

[[responses]]
match = "silent"
contents = []

[[responses]]
match = "slow"
delay_seconds = 0.05
chunk_characters = 4
contents = [{ text = "one two three four five six seven eight nine ten" }]

[[responses]]
match = "break"
contents = [{ text = "abcdefghij" }]
fault = { at_chunk = 0, kind = "overloaded" }

[[responses]]
match = "assistant: Yes"
contents = [{ text = "They agreed." }]
usage = { input_tokens = 30, output_tokens = 3 }

[[responses]]
contents = [{ text = "Yes: {input}" }]
"""


@pytest.fixture
def script(home: Path) -> str:
    """The address of a model."""
    (home / "script.toml").write_text(_SCRIPT)
    return f"scripted:{home / 'script.toml'}"


@pytest.fixture
def session(script: str) -> ChatSession:
    """A session with a scripted model and a store in memory."""
    return ChatSession(application=Application.load(), store=MemoryStore(), address=script)


async def _chat(session: ChatSession, *lines: str, interrupt_after: int = 0) -> RecordedOutput:
    output = RecordedOutput(interrupt_after=interrupt_after)
    await converse(ChatConsole(session, TypedLines(iter(lines)), output))
    return output


def _end(reason: StopReason, text: str = "words") -> AssistantCanister:
    origin = Origin(provider="p", model="m", stop_reason=reason)
    return AssistantCanister(text, origin=origin, turn_id="t")


_CALL = InvocationCanister(invocation_id="a", name="look", turn_id="t")


@pytest.mark.parametrize(
    ("said", "standing"),
    [
        ([], ChatStatus.FINISHED),
        ([SupervisorCanister("Be brief.")], ChatStatus.FINISHED),
        ([UserCanister("?")], ChatStatus.UNANSWERED),
        ([UserCanister("?"), SupervisorCanister("Be brief.")], ChatStatus.UNANSWERED),
        ([_end(StopReason.ANSWERED)], ChatStatus.FINISHED),
        ([_end(StopReason.ANSWERED), SupervisorCanister("Be brief.")], ChatStatus.FINISHED),
        ([_end(StopReason.LIMIT)], ChatStatus.CUT),
        ([_end(StopReason.OVERFLOW)], ChatStatus.CUT),
        ([_end(StopReason.INTERRUPTED)], ChatStatus.INTERRUPTED),
        ([_end(StopReason.FAILED)], ChatStatus.INTERRUPTED),
        ([_end(StopReason.INTERRUPTED, "")], ChatStatus.BROKEN),
        ([_end(StopReason.PAUSED)], ChatStatus.UNFINISHED),
        ([_CALL], ChatStatus.UNFINISHED),
        ([_CALL, ResultCanister("Found", invocation_id="a")], ChatStatus.UNFINISHED),
    ],
)
def test_the_end_of_a_conversation_tells_what_is_open(
    said: list[AnyCanister], standing: ChatStatus
) -> None:
    """Of a message its answer, of an answer its rest."""
    assert read_status(said) is standing


async def test_a_cut_answer_says_so_and_goes_on(session: ChatSession) -> None:
    """The model is asked, in words that anyone can read later, for the rest."""
    output = await _chat(session, "long", "/continue", "/continue")

    assert output.text == "<once upon a><time>"
    assert output.remarks[0] == (
        "The answer was cut off at its length limit. /continue continues it."
    )
    assert text_of(session.conversation.canisters[2]) == CONTINUE_MESSAGE
    assert "complete" in output.complaints[0]


async def test_an_interrupted_answer_goes_on(session: ChatSession) -> None:
    """What had come stays, and the model sees it."""
    output = await _chat(session, "slow", "/continue", interrupt_after=3)

    assert "/continue" in output.remarks[0]
    assert output.text.endswith("<time>")
    assert [c.role for c in session.conversation.canisters] == ["user", "assistant"] * 2


async def test_an_unanswered_message_is_answered(session: ChatSession) -> None:
    """After an error, nobody has to say it twice."""
    output = await _chat(session, "break", "/continue")

    assert len(output.complaints) == 2
    assert [c.role for c in session.conversation.canisters] == ["user"]

    session.address = "scripted:echo"
    output = await _chat(session, "/continue")

    assert output.text == "<break>"


async def test_calls_that_nobody_can_execute_any_more_are_answered_without(
    session: ChatSession,
) -> None:
    """Where the tools of before are not given again, the model is told so, and goes on."""
    session.conversation = Conversation(canisters=[UserCanister("Hello"), _CALL])

    output = await _chat(session, "/continue")

    assert output.text == "<Yes: Hello>"
    roles = [canister.role for canister in session.conversation.canisters]
    assert roles == ["user", "invocation", "result", "assistant"]
    result = session.conversation.canisters[2]
    assert isinstance(result, ResultCanister)
    assert result.is_error


async def test_a_new_message_comes_after_what_is_known_of_an_interrupted_call(
    session: ChatSession,
) -> None:
    """Also where the tools are not given again, so that no engine looks into the log."""
    begun = asyncio.Event()

    async def work() -> None:
        """Works for ever."""
        begun.set()
        await asyncio.Event().wait()

    run = Engine(acting.script([acting.invoke("work")]), [work], store=session.store).prepare("Do!")
    task = asyncio.create_task(run.perform())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert session.store is not None
    session.conversation = Conversation.restore(session.store, run.conversation.id)

    output = await _chat(session, "Did it run?")

    assert output.text == "<Yes: Did it run?>"
    said = Conversation.restore(session.store, run.conversation.id).canisters
    assert [each.role for each in said] == ["user", "invocation", "result", "user", "assistant"]
    assert text_of(said[2]) == BEGUN


async def test_new_begins_anew_under_the_same_instructions(session: ChatSession) -> None:
    """The former conversation stays, and can be found."""
    session.add_instructions("Be brief.")
    await _chat(session, "Hello")
    former = session.conversation.id

    output = await _chat(session, "/new", "Again")

    assert former in output.remarks[0]
    assert session.conversation.id != former
    assert [text_of(c) for c in session.conversation.canisters] == [
        "Be brief.",
        "Again",
        "Yes: Again",
    ]
    assert session.store is not None
    assert len(Conversation.restore(session.store, former)) == 3


async def test_compact_goes_on_with_a_summary(session: ChatSession) -> None:
    """The summary begins a conversation of its own; the other stays as it was."""
    session.add_instructions("Be brief.")
    await _chat(session, "Hello", "/name Logbook")
    former = session.conversation.id

    output = await _chat(session, "/compact", "Why?")

    assert session.store is not None
    kept = Conversation.restore(session.store, session.conversation.id)
    assert [(c.role, text_of(c)) for c in kept.canisters] == [
        ("supervisor", "Be brief."),
        ("document", "They agreed."),
        ("user", "Why?"),
        ("assistant", "Yes: Why?"),
    ]
    assert kept.metadata.name == "Logbook"
    assert former in output.remarks[0]
    assert "(30 tokens in, 3 out)" in output.remarks[0]
    assert len(Conversation.restore(session.store, former)) == 3


async def test_a_message_that_waits_is_not_summarized(session: ChatSession) -> None:
    """It is the last of the new conversation, and /continue answers it."""
    output = await _chat(session, "Hello", "break", "/compact")

    assert text_of(session.conversation.canisters[-1]) == "break"
    assert output.remarks[-1] == ChatStatus.UNANSWERED.value


async def test_nothing_cannot_be_summarized(session: ChatSession) -> None:
    """And nothing begins."""
    former = session.conversation.id

    output = await _chat(session, "/compact")

    assert "nothing to summarize" in output.complaints[0]
    assert session.conversation.id == former


async def test_who_meets_the_window_is_told_the_ways_on(
    session: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chat does not end there."""
    from vibe_llms.exceptions import ContextOverflowError
    from vibe_llms.providers.scripted.client import ScriptedModel

    async def refuse(self: ScriptedModel, *given: object, **more: object) -> None:
        raise ContextOverflowError(model="m", detail="Too long.")

    monkeypatch.setattr(ScriptedModel, "send", refuse)
    output = await _chat(session, "Hello")

    assert output.remarks == ["/compact continues with a summary, /new without one."]


def test_a_single_cut_answer_says_so_on_standard_error(vibe: Vibe, script: str) -> None:
    """And to programs; the answer itself is as it was."""
    outcome = vibe("ask", "-m", script, "long")
    told = vibe("ask", "--json", "-m", script, "long").read_json()

    assert outcome.code == 0
    assert outcome.out == "once upon a\n"
    assert "cut off at its length limit" in outcome.err
    assert "ask --continue" in outcome.err
    assert "cut off" in told["cut"]
    assert vibe("ask", "--json", "-m", script, "Hello").read_json()["cut"] is None


@pytest.mark.slow
@pytest.mark.parametrize("tools", [(), ("--tools", "fetch")])
@pytest.mark.parametrize("stream", [(), ("--no-stream",)])
@pytest.mark.parametrize(
    ("question", "code", "words"),
    [
        ("filtered", 6, "refused: filtered. Ask otherwise."),
        ("failed", 6, "could not complete the answer: failed. Ask again."),
        ("pondered", 8, "before it said anything. Raise max_tokens"),
    ],
)
def test_a_turn_without_an_answer_is_an_error(
    vibe: Vibe,
    script: str,
    tools: tuple[str, ...],
    stream: tuple[str, ...],
    question: str,
    code: int,
    words: str,
) -> None:
    """In one line, with tools and without."""
    outcome = vibe("ask", "-m", script, *tools, *stream, question)

    assert outcome.code == code
    (line,) = outcome.err.splitlines()
    assert line.startswith("vibe: error: ")
    assert words in line


def test_a_model_that_says_nothing_is_told_of(vibe: Vibe, script: str) -> None:
    """It has completed its turn, so that nothing has failed."""
    outcome = vibe("ask", "-m", script, "silent")

    assert (outcome.code, outcome.out.strip()) == (0, "")
    assert outcome.err == "The model returned no text.\n"


def test_a_batch_counts_turns_without_an_answer_as_failed(
    vibe: Vibe, script: str, home: Path
) -> None:
    (home / "in.txt").write_text("Hello\nfiltered\nfailed\n")

    outcome = vibe("batch", "-m", script, "in.txt", "-o", "out.jsonl")

    assert outcome.code == 1
    assert "2 failed" in outcome.err
    again = vibe("batch", "-m", script, "in.txt", "-o", "out.jsonl", "--retry-failed")
    assert "1 before" in again.err or "2 done" in again.err


def _show(vibe: Vibe, *arguments: str) -> list[str]:
    canisters = vibe("show", "--json", *arguments).read_json()["canisters"]
    return [content["text"] for canister in canisters for content in canister["content"]]


def test_a_question_goes_on_with_a_conversation(vibe: Vibe, script: str) -> None:
    """With the newest, or with the one that is named, by its own model."""
    first = vibe("ask", "--json", "-m", script, "Hello").read_json()["conversation"]
    vibe("ask", "-m", "scripted:echo", "Other")

    assert vibe("ask", "Why?", "--continue", first[:8]).out == "Yes: Why?\n"
    assert vibe("ask", "And?", "--continue").out == "Yes: And?\n"
    assert vibe("ask", "--continue", "Who is it?").out == "Yes: Who is it?\n"

    assert _show(vibe, first)[::2] == ["Hello", "Why?", "And?", "Who is it?"]


def test_without_a_question_what_is_open_goes_on(vibe: Vibe, script: str) -> None:
    """And where nothing is, that is said."""
    vibe("ask", "-m", script, "long")

    assert vibe("ask", "--continue").out == "time\n"

    outcome = vibe("ask", "--continue")
    assert outcome.code == 2
    assert "question is missing" in outcome.err


def test_what_is_no_conversation_is_said(vibe: Vibe, script: str) -> None:
    """A word that may be an id is taken for one; nothing is asked of another conversation."""
    vibe("ask", "-m", script, "Hello")

    outcome = vibe("ask", "--continue", "zzzz", "Why?")

    assert outcome.code == 4
    assert len(_show(vibe, vibe("list").out.partition("\t")[0])) == 2
    meant = vibe("ask", "--continue", "hi")
    assert meant.code == 4
    assert "write it first" in meant.err
    assert "ask hi --continue" in meant.err


def test_a_continued_question_that_is_not_kept_leaves_the_conversation(
    vibe: Vibe, script: str
) -> None:
    """It is answered with what was said before, and forgotten."""
    vibe("ask", "-m", script, "Hello")

    assert vibe("ask", "--no-save", "Why?", "--continue").out == "Yes: Why?\n"

    assert len(_show(vibe, vibe("list").out.partition("\t")[0])) == 2


def test_without_an_id_the_newest_is_shown_and_exported(vibe: Vibe, script: str) -> None:
    """Where a command only looks, nobody has to look an id up."""
    assert vibe("show").code == 4
    vibe("ask", "-m", script, "First")
    vibe("ask", "-m", script, "Second")

    assert _show(vibe) == ["Second", "Yes: Second"]
    assert "Yes: Second" in vibe("export").out
    assert vibe("show", "").code == 4  # a variable of a shell that is empty is no id


def test_the_window_of_the_embedded_model_says_where_it_is_set(vibe: Vibe, home: Path) -> None:
    """Before somebody meets its end, and after somebody has set it."""
    assert "context_tokens of [providers.local]" in vibe("models", "show", "local").out
    (home / ".config" / "vibe-llms").mkdir(parents=True)
    file = home / ".config" / "vibe-llms" / "config.toml"
    file.write_text("[providers.local]\ncontext_tokens = 2048\n")

    lines = vibe("models", "show", "local").out.splitlines()
    assert f"providers.local.context_tokens\t2048\tuser {file}:2" in lines
    settings = vibe("models", "show", "local", "--json").read_json()["settings"]
    assert settings == {"providers.local.context_tokens": 2048}


async def test_usage_counts_what_summaries_took(session: ChatSession) -> None:
    """They are no part of the conversation, and cost all the same."""
    await _chat(session, "Hello", "/compact")

    usage = session.measure().usage

    assert usage is not None
    assert (usage.total_input_tokens, usage.total_output_tokens) == (30, 3)


@pytest.mark.parametrize("tools", [(), (FunctionsEnsemble("none", ()),)])
async def test_usage_counts_what_the_window_took(
    session: ChatSession, home: Path, tools: tuple[Ensemble, ...]
) -> None:
    """Summaries that are asked for on the way to an answer, with tools as well as without."""
    file = home / ".config" / "vibe-llms" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[[models]]\npattern = "script"\ncontext_window_tokens = 1000\n')
    application = Application.load(command_line={"window": "summarize"})
    said = [AssistantCanister("Yes " * 200) if n % 2 else UserCanister(f"{n}?") for n in range(12)]
    session = attrs.evolve(
        session, application=application, conversation=Conversation(canisters=said), tools=tools
    )
    await session.open()

    await _chat(session, "Hello")
    usage = session.measure().usage
    await session.close()

    assert usage is not None
    assert (usage.total_output_tokens or 0) % 3 == 0
    assert (usage.total_input_tokens or 0) >= 30
