"""The ensemble ``recall``: passages with sources, its settings, and what it says when it cannot."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from vibe_llms import Conversation
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.tags import OWNER_TAG
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.retrieval import MeaningIndex
from vibe_llms.retrieval.recalling import RecallEnsemble


def produce_application(tmp_path: Path, **settings: Any) -> Application:
    """Makes an application with folders of its own, whose embedder counts words."""
    environment = {
        "VIBE_LLMS_DIRECTORIES_DATA": str(tmp_path / "data"),
        "VIBE_LLMS_DIRECTORIES_CACHE": str(tmp_path / "cache"),
    }
    line = {"embedder": "scripted:words"}
    line.update({f"ensembles.recall.{name}": value for name, value in settings.items()})
    return Application(
        load_configuration(environment=environment, working_directory=tmp_path, command_line=line)
    )


async def recall(
    application: Application, question: str, *, run_id: str = "", subject: str = ""
) -> Outcome:
    """Calls the tool once."""
    (ensemble,) = await application.produce_ensembles(["recall"])
    assert isinstance(ensemble, RecallEnsemble)
    await ensemble.connect()
    try:
        return await ensemble.recall(question, InvocationContext(run_id=run_id, subject=subject))
    finally:
        await ensemble.disconnect()
        await application.close()


@pytest.fixture(autouse=True)
def _working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "keys.md").write_text("# Budgets\n\nLimit the money of a key.\n")
    return tmp_path / "docs"


async def test_passages_have_their_sources(tmp_path: Path, folder: Path) -> None:
    application = produce_application(tmp_path, folders=["docs"])
    conversation = Conversation()
    conversation.add_user_message("How much money is left?")
    conversation.save(application.store)

    outcome = await recall(application, "money")

    assert not outcome.is_error
    assert f"{folder / 'keys.md'}:3, Budgets\nLimit the money of a key." in outcome.text
    assert f"conversation {conversation.id}, message 0 (user" in outcome.text


async def test_the_conversation_that_asks_is_left_out(tmp_path: Path) -> None:
    application = produce_application(tmp_path)
    conversation = Conversation()
    conversation.add_user_message("How much money is left?")
    conversation.save(application.store)

    outcome = await recall(application, "money", run_id=conversation.id)

    assert outcome.text == "[Nothing was found.]"


async def test_a_run_sees_only_conversations_of_its_owner(tmp_path: Path) -> None:
    application = produce_application(tmp_path)
    saved = {}
    for name, owner in (("run", "ann"), ("own", "ann"), ("other", "bob"), ("nobody", "")):
        tags = (f"{OWNER_TAG}{owner}",) if owner else ()
        conversation = Conversation(metadata=ConversationMetadata(tags=tags))
        conversation.add_user_message(f"How much money is left, says {name}?")
        conversation.save(application.store)
        saved[name] = conversation.id

    outcome = await recall(application, "money", run_id=saved["run"])

    assert [name for name, each in saved.items() if each in outcome.text] == ["own"]
    # Outside of a run: a client of the tools daemon, and the user of this machine.
    for subject, seen in (("bob", ["other"]), ("eve", []), ("", ["nobody"])):
        outcome = await recall(application, "money", subject=subject)
        assert [name for name, each in saved.items() if each in outcome.text] == seen


async def test_owners_with_many_conversations_do_not_hide_the_own_one(tmp_path: Path) -> None:
    application = produce_application(tmp_path, limit=1)
    metadata = ConversationMetadata(tags=(f"{OWNER_TAG}ann",))
    run, own = Conversation(metadata=metadata), Conversation(metadata=metadata)
    own.add_user_message("Is there money, or are there other things that one could have instead?")
    run.add_user_message("Hello")
    for conversation in (run, own):
        conversation.save(application.store)
    for _ in range(9):
        other = Conversation()
        other.add_user_message("money")
        other.save(application.store)

    assert own.id in (await recall(application, "money", run_id=run.id)).text


async def test_conversations_can_be_left_out(tmp_path: Path, folder: Path) -> None:
    application = produce_application(tmp_path, folders=[str(folder)], conversations=False)
    conversation = Conversation()
    conversation.add_user_message("How much money is left?")
    conversation.save(application.store)

    assert conversation.id not in (await recall(application, "money")).text


async def test_the_limit_counts_passages(tmp_path: Path, folder: Path) -> None:
    for number in range(9):
        (folder / f"{number}.txt").write_text(f"money {number}")

    outcome = await recall(produce_application(tmp_path, folders=["docs"], limit=3), "money")

    assert isinstance(outcome.structured, dict)
    assert len(outcome.structured["passages"]) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("question", ["", "  "])
async def test_a_blank_question_fails_in_words(tmp_path: Path, question: str) -> None:
    outcome = await recall(produce_application(tmp_path), question)

    assert outcome.is_error
    assert "empty" in outcome.text


async def test_a_missing_folder_is_named_beside_the_passages(tmp_path: Path, folder: Path) -> None:
    outcome = await recall(produce_application(tmp_path, folders=["gone", "docs"]), "money")

    assert not outcome.is_error
    assert str(tmp_path / "gone") in outcome.text
    assert "Limit the money of a key." in outcome.text


async def test_no_readable_source_fails_in_words(tmp_path: Path) -> None:
    application = produce_application(tmp_path, folders=["gone"], conversations=False)
    outcome = await recall(application, "money")

    assert outcome.is_error
    assert str(tmp_path / "gone") in outcome.text


@pytest.mark.parametrize("setting", [{"limit": 0}, {"folders": "docs"}, {"wrong": 1}])
async def test_invalid_settings_are_named(tmp_path: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        await produce_application(tmp_path, **setting).produce_ensembles(["recall"])


async def test_a_slow_update_is_told(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = produce_application(tmp_path, folders=[str(folder)], seconds=0.05)

    async def update(self: MeaningIndex) -> int:
        await asyncio.sleep(30)
        return 0

    monkeypatch.setattr(MeaningIndex, "update", update)
    assert "Not everything is indexed" in (await recall(application, "money")).text
