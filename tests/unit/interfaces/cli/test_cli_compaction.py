"""Compaction in a chat, by ``vibe ask`` and shown by ``vibe show --whole``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.conversations.long_chats import Player, is_summarizing, load_small, repeat_facts
from support.screens.chatting import RecordedOutput, TypedLines
from vibe_llms.application import Application
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.exceptions import ContextOverflowError, ProviderError
from vibe_llms.interfaces.cli.chat.console import ChatConsole
from vibe_llms.interfaces.cli.chat.loop import converse
from vibe_llms.interfaces.cli.chat.session import ChatSession
from vibe_llms.interfaces.cli.chat.statuses import ChatStatus
from vibe_llms.invocables.ensembles import Ensemble, FunctionsEnsemble
from vibe_llms.messages.canisters import AssistantCanister
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of

Vibe = Callable[..., Any]
FACT = "Fact: the cat is called Mia."


@pytest.fixture
def player(monkeypatch: pytest.MonkeyPatch) -> Player:
    """The answers of the model."""
    player = Player(repeat_facts)
    player.install(monkeypatch)
    return player


@pytest.fixture
def session(home: Path, player: Player) -> ChatSession:
    """A chat with a window of 2,000 tokens."""
    return ChatSession(application=load_small(home), store=MemoryStore())


async def chat(session: ChatSession, *lines: str) -> RecordedOutput:
    """Type lines, and return the output."""
    output = RecordedOutput()
    await converse(ChatConsole(session, TypedLines(iter(lines)), output))
    return output


LONG = ["word " * 200] * 9


@pytest.mark.parametrize("tools", [(), (FunctionsEnsemble("none", ()),)])
async def test_a_chat_goes_on_when_the_window_is_full(
    session: ChatSession, player: Player, tools: tuple[Ensemble, ...]
) -> None:
    """In a fork, with the summary in one line; no request exceeds the window."""
    session.tools = tools
    await session.open()
    first = session.conversation.id

    output = await chat(session, FACT, *LONG, "Which facts?")
    await session.close()

    assert output.complaints == []
    assert output.text.endswith(f"<{FACT}>")
    assert max(player.sizes) <= 1500
    (remark,) = output.remarks
    assert remark.startswith("The model's window was full. Continuing in ")
    pairs = zip(player.requests, player.sizes, strict=True)
    used = sum(size for request, size in pairs if is_summarizing(request))
    assert f"the model's summary ({used:,} tokens in, " in remark
    assert session.conversation.id in remark
    assert f"shows {first} too" in remark
    store = session.store
    assert store is not None
    assert len(store.read(session.conversation.id).canisters) == len(session.conversation)
    assert text_of(store.read(first).canisters[0]) == FACT


async def test_a_summary_that_fails_is_one_line(session: ChatSession, player: Player) -> None:
    """The message is stored, and /continue tries again."""

    def answer(request: Request) -> str:
        if player.summarizing:
            raise ProviderError(detail="Overloaded.", provider="p")
        return "All right."

    player.answer = answer
    first = session.conversation.id
    output = await chat(session, FACT, *LONG)

    assert session.conversation.id == first
    assert "could not be summarized and is unchanged: Overloaded" in output.complaints[0]
    assert "\n" not in output.complaints[0]
    player.answer = repeat_facts
    output = await chat(session, "/continue")
    assert output.complaints == []
    assert session.conversation.id != first


async def test_a_window_that_the_vendor_finds_full_is_compacted(
    session: ChatSession, player: Player
) -> None:
    """The estimate was too low: the first answer sends less, the next begins with a summary."""

    def answer(request: Request) -> str:
        if sum(len(text_of(each)) for each in request.canisters) > 5000:
            raise ContextOverflowError(model="m", detail="Too long.")
        return repeat_facts(request)

    player.answer = answer
    first = session.conversation.id
    await chat(session, FACT, *LONG[:5])
    assert session.conversation.id == first

    await chat(session, "Next")

    assert session.conversation.id != first


async def test_compact_keeps_as_many_turns_as_it_is_told(session: ChatSession) -> None:
    """Now and in later compactions."""
    await chat(session, FACT, "One", "Two", "Three", "/compact 2")

    assert [text_of(each) for each in session.conversation.canisters] == [
        FACT,
        "Two",
        "All right.",
        "Three",
        "All right.",
    ]
    assert session.conversation.metadata.keep == 2
    output = await chat(session, "/compact many")
    assert "not a number of turns to keep" in output.complaints[0]


async def test_a_failing_compaction_does_not_change_the_turns_to_keep(
    session: ChatSession, player: Player
) -> None:
    """The number is stored with the summary."""

    def fail(request: Request) -> str:
        raise ProviderError(detail="Overloaded.", provider="p")

    await chat(session, FACT, "One")
    player.answer = fail
    output = await chat(session, "/compact 1")

    assert "Overloaded" in output.complaints[0]
    assert session.conversation.metadata.keep is None


async def test_pinned_messages_stay(session: ChatSession) -> None:
    """The last one of the user, or one by its number; /unpin forgets them."""
    output = await chat(session, "Blue", "/pin", "Red", "Green", "/pin 3", "/compact 0")

    assert output.remarks[:2] == ["Pinned: Blue", "Pinned: All right."]
    texts = [text_of(each) for each in session.conversation.canisters]
    assert texts == ["Blue", "All right.", "They talked."]
    assert ChatStatus.UNANSWERED.value not in output.remarks
    output = await chat(session, "/continue")
    assert "complete" in output.complaints[0]
    output = await chat(session, "/pin 99", "/unpin", "Next", "/compact 0")
    assert "no message 99" in output.complaints[0]
    assert [text_of(each) for each in session.conversation.canisters] == ["They talked."]


def test_show_whole_walks_back(vibe: Vibe) -> None:
    """Without it, the fork; with it, everything, and the usage of everything."""
    vibe("chat", "-m", "scripted:echo", stdin=b"One\nTwo\nThree\n/compact 1\nFour\n")

    fork, whole = _read(vibe), _read(vibe, "--whole")

    assert [each["role"] for each in fork] == ["document", *["user", "assistant"] * 2]
    assert fork[0]["summarizes"]["first"] == whole[0]["id"]
    assert fork[0]["summarizes"]["last"] == whole[3]["id"]
    texts = [each["content"][0]["text"] for each in whole if each["role"] != "document"]
    assert texts == ["One", "One", "Two", "Two", "Three", "Three", "Four", "Four"]
    account = json.loads(vibe("show", "--whole", "--usage", "--json").out)
    assert account["usage"]["models"][0]["generations"] == 5
    assert "--whole" in vibe("show").err


def _read(vibe: Vibe, *arguments: str) -> list[dict[str, Any]]:
    canisters: list[dict[str, Any]] = vibe("show", "--json", *arguments).read_json()["canisters"]
    return canisters


def test_an_unsaved_question_leaves_nothing(
    vibe: Vibe, home: Path, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--no-save`` answers from the compacted conversation, and stores neither."""
    application = load_small(home)
    monkeypatch.setenv("VIBE_LLMS_CONFIG", str(home / "config.toml"))
    conversation = Conversation()
    for _ in range(9):
        conversation.add_user_message("word " * 200)
        conversation.add_canister(AssistantCanister("All right."))
    conversation.save(application.store)

    outcome = vibe("ask", "--no-save", "Which facts?", "--continue")

    assert outcome.code == 0, outcome.err
    assert player.summarizing
    (row,) = vibe("list", "--json").read_json()
    assert row["canisters"] == 18
    assert Application.load().store.read(conversation.id).canisters == tuple(conversation.canisters)
