"""The chat without a terminal: a driver over an input and an output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.screens.chatting import RecordedOutput, TypedLines
from vibe_llms.application import Application
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.exceptions import ConverseError, ProviderError, RequestError
from vibe_llms.instruments.models import Model
from vibe_llms.interfaces.cli.chat.commands import COMMANDS
from vibe_llms.interfaces.cli.chat.console import ChatConsole
from vibe_llms.interfaces.cli.chat.loop import converse
from vibe_llms.interfaces.cli.chat.session import ChatSession
from vibe_llms.interfaces.cli.commands.chat import _greet
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.telemetry.odometer import Odometer

_SCRIPT = """
[[responses]]
match = "slow"
delay_seconds = 0.05
chunk_characters = 4
contents = [{ text = "one two three four five six seven eight nine ten" }]

[[responses]]
match = "break"
contents = [{ text = "abcdefghij" }]
fault = { at_chunk = 1, kind = "overloaded" }

[[responses]]
contents = [{ reasoning = "Hm." }, { text = "Yes: {input}" }]
usage = { input_tokens = 12, output_tokens = 7 }
"""


@pytest.fixture
def session(home: Path) -> ChatSession:
    """A session with a scripted model and a store in memory."""
    (home / "script.toml").write_text(_SCRIPT)
    return ChatSession(
        application=Application.load(),
        store=MemoryStore(),
        address=f"scripted:{home / 'script.toml'}",
        odometer=Odometer(),
    )


async def _chat(
    session: ChatSession,
    *lines: str | BaseException,
    interrupt_after: int = 0,
    is_interactive: bool = True,
) -> RecordedOutput:
    output = RecordedOutput(interrupt_after=interrupt_after)
    await converse(ChatConsole(session, TypedLines(iter(lines), is_interactive), output))
    return output


def _restore(session: ChatSession) -> Conversation:
    """Reads the conversation from the store, as another process would."""
    assert session.store is not None
    return Conversation.restore(session.store, session.conversation.id)


async def test_each_message_is_answered_and_kept(session: ChatSession) -> None:
    """Questions and answers are in the store, in order."""
    output = await _chat(session, "Hello", "Again")

    assert output.text == "<Hm.Yes: Hello><Hm.Yes: Again>"
    assert [c.role for c in _restore(session).canisters] == ["user", "assistant"] * 2


async def test_what_the_user_says_is_stored_before_it_is_sent(
    session: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the request goes out, the user's words have been acknowledged by the store."""
    from vibe_llms.providers.scripted.client import ScriptedModel

    stored_when_sent: list[str] = []
    send = ScriptedModel.send

    async def watch(self: ScriptedModel, *arguments: Any, **keywords: Any) -> Any:
        stored_when_sent.append(text_of(_restore(session).canisters))
        return await send(self, *arguments, **keywords)

    monkeypatch.setattr(ScriptedModel, "send", watch)

    await _chat(session, "Hello")

    assert stored_when_sent == ["Hello"]


async def test_nothing_said_leaves_nothing_behind(session: ChatSession) -> None:
    """A chat in which nothing was said is not a conversation."""
    await _chat(session, "", "/help", "/usage", "/tokens", "/name")

    assert session.store is not None
    assert list(session.store.survey()) == []


async def test_control_c_stops_the_answer_and_keeps_what_came(session: ChatSession) -> None:
    """The partial answer is stored, marked as interrupted, and the chat goes on."""
    output = await _chat(session, "slow", interrupt_after=2)

    assert "Stopped" in output.remarks[-1]
    question, answer = _restore(session).canisters
    assert text_of(question) == "slow"
    assert "one two three".startswith(text_of(answer).strip()[:8])
    assert len(text_of(answer)) < 20
    assert answer.origin.stop_reason == "interrupted"  # type: ignore[union-attr]


async def test_control_c_at_the_prompt_does_not_leave(session: ChatSession) -> None:
    """It says how to leave; what follows is read."""
    output = await _chat(session, KeyboardInterrupt(), "Hello")

    assert "Ctrl-D" in output.remarks[0]
    assert "Yes: Hello" in output.text


async def test_an_answer_that_breaks_off_is_kept_and_told(session: ChatSession) -> None:
    """One line says what went wrong, and the chat goes on."""
    output = await _chat(session, "break", "Hello")

    assert len(output.complaints) == 1
    assert "overloaded" in output.complaints[0]
    assert text_of(_restore(session).canisters[1]) == "abcde"
    assert "Yes: Hello" in output.text


async def test_without_a_person_the_first_failure_ends_it(session: ChatSession) -> None:
    """In a pipe nobody can go on: the error decides the exit code."""
    with pytest.raises(ProviderError):
        await _chat(session, "break", "Hello", is_interactive=False)


async def test_retry_answers_again_in_a_fork(session: ChatSession) -> None:
    """The former answer stays in the former conversation."""
    first = session.conversation

    output = await _chat(session, "Hello", "/retry")

    assert session.conversation.id != first.id
    assert session.conversation.id in output.remarks[0]
    fork = _restore(session)
    assert fork.metadata.parent is not None
    assert fork.metadata.parent.identity == first.id
    assert [c.role for c in fork.canisters] == ["user", "assistant"]
    assert fork.canisters[1].id != first.canisters[1].id
    assert len(first.canisters) == 2


async def test_retry_of_a_question_without_an_answer_needs_no_fork(session: ChatSession) -> None:
    """Where nothing was answered, there is nothing to keep apart."""
    await session.add_message("Hello")
    identity = session.conversation.id

    await _chat(session, "/retry")

    assert session.conversation.id == identity
    assert [c.role for c in _restore(session).canisters] == ["user", "assistant"]


async def test_a_fork_is_stored_at_once(session: ChatSession) -> None:
    """``/fork N`` shares the first N canisters; its id can be used elsewhere right away."""
    await _chat(session, "Hello", "Again", "/fork 2")

    assert len(_restore(session).canisters) == 2


@pytest.mark.parametrize("line", ["/fork 99", "/fork x", "/nix", "/image", "/model nix:x"])
async def test_a_mistake_in_a_command_is_one_line(session: ChatSession, line: str) -> None:
    """It says what would be right, and the chat goes on."""
    output = await _chat(session, line, "Hello")

    assert len(output.complaints) == 1
    assert "Yes: Hello" in output.text


async def test_files_go_with_the_next_message_only(session: ChatSession, home: Path) -> None:
    """A document and a picture are stored before the words, once."""
    (home / "a b.txt").write_text("material")
    (home / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n")

    await _chat(session, "/file 'a b.txt'", f"/image {home / 'p.png'}", "Look", "More")

    roles = [c.role for c in _restore(session).canisters]
    assert roles == ["document", "user", "assistant", "user", "assistant"]
    assert [c.type for c in _restore(session).canisters[1].content] == ["image", "text"]


async def test_instructions_can_be_given_on_the_way(session: ChatSession) -> None:
    """``/system`` adds them to the conversation and shows the latest."""
    output = await _chat(session, "/system", "/system Be brief.", "/system", "Hello")

    assert output.remarks[2] == "Be brief."
    assert [c.role for c in _restore(session).canisters] == ["supervisor", "user", "assistant"]


async def test_a_name_is_kept(session: ChatSession) -> None:
    """Given before the first message or after, the store has it."""
    await _chat(session, "/name Before", "Hello")
    before = _restore(session).metadata.name
    await _chat(session, "/name After")

    assert (before, _restore(session).metadata.name) == ("Before", "After")


async def test_what_cannot_be_a_name_leaves_the_one_that_is_there(session: ChatSession) -> None:
    output = await _chat(session, "/name Before", "Hello", f"/name {'x' * 201}")

    assert _restore(session).metadata.name == "Before"
    assert "The name has 201 characters" in " ".join(map(str, output.complaints))


async def test_the_model_can_be_exchanged_on_the_way(session: ChatSession) -> None:
    """The conversation remembers the model last used."""
    output = await _chat(session, "/model scripted:echo", "Hello")

    assert "<Hello>" in output.text
    assert _restore(session).metadata.model == "scripted:echo"


async def test_usage_adds_up(session: ChatSession) -> None:
    """``/usage`` tells the tokens of all turns, by state and by model, and how long they took."""
    output = await _chat(session, "Hello", "Again", "/usage")

    states, models, *_ = output.remarks[0].split("\n\n")
    assert [line.split()[:3] for line in states.splitlines()[2:3]] == [["generation", "24", "14"]]
    assert models.splitlines()[1].startswith("scripted:")
    assert models.splitlines()[1].split()[1] == "2"
    (model,) = session.measure().models
    assert model.untimed == 0


async def test_tokens_are_counted(session: ChatSession) -> None:
    """``/tokens`` asks the model's tokenizer, also after an answer."""
    output = await _chat(session, "Hello", "/tokens")

    assert "tokens" in output.remarks[0]


async def test_a_conversation_can_be_written_to_a_file(session: ChatSession, home: Path) -> None:
    """``/export`` chooses the form by the name, and Markdown without one."""
    await _chat(session, "Hello", "/export", f"/export {home / 'it.html'}")

    assert "Hello" in (home / f"{session.conversation.id}.md").read_text()
    assert "<html" in (home / "it.html").read_text()


async def test_two_slashes_say_one(session: ChatSession) -> None:
    """A message can begin with a slash."""
    output = await _chat(session, "//etc is a folder")

    assert "Yes: /etc is a folder" in output.text


@pytest.mark.parametrize("word", ["/quit", "/exit"])
async def test_quit_leaves(session: ChatSession, word: str) -> None:
    """What follows is not read."""
    output = await _chat(session, word, "Hello")

    assert output.text == ""


async def test_help_shows_every_command(session: ChatSession) -> None:
    """The table of commands is the help."""
    output = await _chat(session, "/help")

    assert all(name in output.remarks[0] for name in COMMANDS)


async def test_without_streaming_the_answer_is_shown_all_the_same(session: ChatSession) -> None:
    """``--no-stream`` shows reasoning and text in one piece."""
    session.stream = False

    output = await _chat(session, "Hello")

    assert output.text == "<Hm.Yes: Hello>"
    assert len(_restore(session).canisters) == 2


async def test_what_others_wrote_meanwhile_is_kept_and_told(session: ChatSession) -> None:
    """Two processes in one conversation lose nothing of each other."""
    await _chat(session, "Hello")
    assert session.store is not None
    session.store.append(session.conversation.id, [UserCanister("from elsewhere")])

    output = await _chat(session, "Again")

    texts = [text_of(c) for c in _restore(session).canisters]
    assert texts == ["Hello", "Yes: Hello", "from elsewhere", "Again", "Yes: Again"]
    assert any("Another program" in remark for remark in output.remarks)


async def test_a_session_without_a_store_keeps_nothing(session: ChatSession) -> None:
    """It answers all the same; forks live in memory."""
    session.store = None

    output = await _chat(session, "Hello", "/fork 1", "/retry")

    assert output.text.count("Yes: Hello") == 2


async def test_an_unknown_model_is_found_before_anything_is_said(session: ChatSession) -> None:
    """``prepare`` raises what accessing the model raises."""
    session.address = "scripted:nothing"

    with pytest.raises(ConverseError):
        await session.open()


async def test_what_the_model_cannot_take_does_not_spoil_the_conversation(
    session: ChatSession, home: Path
) -> None:
    """A refused picture is not kept, or each later message would be refused for it, too."""
    (home / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    refusals = iter([RequestError(detail="It takes no pictures.")])

    async def refuse(model: Model, prompt: object) -> None:
        if error := next(refusals, None):
            raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Model, "check", refuse)
        output = await _chat(session, "/image p.png", "What is it?", "Hello")

    assert output.complaints == ["It takes no pictures."]
    assert [c.role for c in _restore(session).canisters] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("address", "is_told"),
    [("local:smollm2", True), ("local", True), ("local:mine", False), ("nowhere:x", False)],
)
def test_the_greeting_says_that_the_embedded_model_is_for_trying_out(
    session: ChatSession, address: str, is_told: bool
) -> None:
    """And how to get another; of a model of which nothing is known it says nothing."""
    session.address = address
    console = ChatConsole(session, TypedLines(iter(()), True), output := RecordedOutput())

    _greet(console)

    said = "\n".join(output.remarks)
    assert address in said
    assert ("tiny model to try things out" in said) is is_told
    assert ("vibe chat --model PROVIDER:NAME" in said) is is_told
