"""A real conversation with real weights, from the first word to a new process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.vendors import embedded
from vibe_llms import Application, Conversation, Model, SyncModel
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations.exchange import export_html, export_json, export_markdown
from vibe_llms.conversations.lookup import find_newest
from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.messages.canisters import AssistantCanister, StopReason
from vibe_llms.messages.views import text_of, usage_of

pytestmark = pytest.mark.weights


@pytest.fixture
def application(tmp_path: Path) -> Application:
    """An application with the embedded model and a store of its own."""
    embedded.lend_weights(tmp_path / "data")
    return Application(
        load_configuration(
            command_line={
                "directories.data": str(tmp_path / "data"),
                "directories.cache": str(tmp_path / "cache"),
                "controls.seed": 7,
                "controls.max_tokens": 8,
            },
            environment={"HOME": str(tmp_path)},
            working_directory=tmp_path,
        )
    )


def run_vibe(tmp_path: Path, *arguments: str) -> str:
    """Runs the command in a new process, with the same directories."""
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "VIBE_LLMS_DIRECTORIES_DATA": str(tmp_path / "data"),
        "VIBE_LLMS_DIRECTORIES_CACHE": str(tmp_path / "cache"),
        "VIBE_LLMS_CONFIG": str(tmp_path / "none.toml"),
    }
    (tmp_path / "none.toml").touch()
    command = [sys.executable, "-m", "vibe_llms.interfaces.cli.entry", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def answer(model: Model, conversation: Conversation, text: str) -> str:
    """Says something, streams the answer, and stores both."""
    store = model.application.store
    conversation.add_user_message(text)
    conversation.save(store)
    async with model.stream(conversation) as stream:
        pieces = [e.text async for e in stream if isinstance(e, ContentDeltaEvent)]
        response = await stream.response()
    assert "".join(pieces) == response.text
    conversation.add_canisters(response.canisters)
    conversation.save(store)
    return response.text


@pytest.mark.slow
async def test_a_real_conversation_is_held_stopped_forked_found_and_reopened(
    application: Application, tmp_path: Path
) -> None:
    """Stream, stop midway, continue, fork, continue the fork, search, export, reopen."""
    store = application.store
    conversation = Conversation()
    async with Model(application=application) as model:
        first = await answer(model, conversation, "Name one animal that lives in the sea.")
        assert first.strip()

        conversation.add_user_message("Tell me a long story about it.")
        async with model.stream(conversation) as stream:
            async for event in stream:
                if isinstance(event, ContentDeltaEvent) and len(text_of(stream.canisters)) > 20:
                    break
        (stopped,) = stream.canisters
        assert isinstance(stopped, AssistantCanister)
        assert stopped.origin is not None
        assert stopped.origin.stop_reason is StopReason.INTERRUPTED
        conversation.add_canister(stopped)
        conversation.save(store)

        await answer(model, conversation, "Thank you. Now count to three.")
        fork = conversation.fork(from_index=2)
        await answer(model, fork, "Name a marmalade instead.")

    assert len(conversation.canisters) == 6
    assert fork.canisters[:2] == conversation.canisters[:2]
    usage = usage_of(conversation.canisters)
    assert usage is not None
    assert usage.total_output_tokens

    reopened = Conversation.restore(store, conversation.id)
    assert list(reopened.canisters) == list(conversation.canisters)
    assert find_newest(store) == fork.id
    hits = application.index.search("marmalade instead")
    assert {hit.id for hit in hits} == {fork.id}

    for export in (export_markdown, export_html, export_json):
        assert "sea" in export(fork, store.contents)

    listed = json.loads(await asyncio.to_thread(run_vibe, tmp_path, "list", "--json"))
    assert {row["id"] for row in listed} == {conversation.id, fork.id}
    shown = await asyncio.to_thread(run_vibe, tmp_path, "show", fork.id[:8])
    assert "marmalade" in shown
    again = await asyncio.to_thread(
        run_vibe,
        tmp_path,
        *("chat", "--continue", fork.id, "-c", "max_tokens=8", "And now say goodbye."),
    )
    assert again.strip()
    assert len(Conversation.restore(store, fork.id).canisters) == len(fork.canisters) + 2


@pytest.mark.slow
def test_synchronous_code_gets_the_same_words(application: Application) -> None:
    """The same seed gives the same answer, streamed or not, awaited or not."""
    question = "Name one animal that lives in the sea."
    with SyncModel(application=application, temperature=0) as model:
        streamed = model.ask(question)
        whole = model.ask(question, stream=False)

    assert streamed.text == whole.text
    assert streamed.text.strip()
    assert [c.content for c in streamed.canisters] == [c.content for c in whole.canisters]
    assert streamed.metadata.stop_reason is whole.metadata.stop_reason
