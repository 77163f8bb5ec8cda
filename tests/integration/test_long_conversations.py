"""Conversations of thousands of turns: compacted again and again, and killed in between."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.conversations.long_chats import WINDOW, Player, load_small, repeat_facts
from support.vendors import embedded
from vibe_llms import Model
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations import DirectoryStore, verify
from vibe_llms.conversations.compaction import find_summary, read_whole
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.messages.canisters import AssistantCanister
from vibe_llms.messages.views import text_of

WORDS = "Answer with yes or no. " * 8
FACT = "Fact: the cat is called Mia."


@pytest.mark.slow
async def test_a_chat_of_2000_turns_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never exceeds its window, and a fact of turn 3 lives on in summaries of summaries."""
    player = Player(repeat_facts)
    player.install(monkeypatch)
    store = DirectoryStore(tmp_path / "store")
    conversation, identities = Conversation(), set()
    said: list[str] = []
    async with Model(application=load_small(tmp_path)) as model:
        for turn in range(2000):
            text = FACT if turn == 2 else f"Question {turn} " + "word " * (turn % 40)
            conversation.add_user_message(text)
            conversation.save(store)
            conversation = await model.make_room(conversation)
            response = await model.ask(conversation)
            assert response.losses == ()
            conversation.add_canisters(response.canisters)
            conversation.save(store)
            said += [text, response.text]
            identities.add(conversation.id)
        conversation.add_user_message("Which facts?")
        answer = await model.ask(await model.make_room(conversation))

    assert answer.text == FACT
    assert FACT not in [text_of(each) for each in conversation.canisters if each.role == "user"]
    assert max(player.sizes) <= WINDOW * 4 // 5  # a larger request is an error of this model
    assert len(identities) > 20
    whole, findings = read_whole(store, store.read(conversation.id))
    assert findings == []
    assert [text_of(each) for each in whole if each.role != "document"] == said
    assert len(whole) - len(said) == len(identities) - 1
    assert verify(store).findings == ()


QUESTIONS = (
    "What is the name of my cat? Her name is",
    "What is my cat called?",
    "Tell me the name of my cat.",
    "My cat is called",
)


@pytest.mark.weights
@pytest.mark.parametrize(
    ("turns", "words"),
    [
        pytest.param(9, WORDS, marks=pytest.mark.slow, id="9"),
        pytest.param(2000, "", marks=pytest.mark.soak, id="2000"),
    ],
)
async def test_the_embedded_model_goes_on(tmp_path: Path, turns: int, words: str) -> None:
    """It writes the summaries; a pinned fact stays, and every request fits its window."""
    embedded.lend_weights(tmp_path / "data" / "vibe-llms")
    file = tmp_path / "config.toml"
    file.write_text('window = "summarize"\n[providers.local]\ncontext_tokens = 512\n')
    environment = {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "VIBE_LLMS_CONFIG": str(file),
    }
    application = Application(load_configuration(environment=environment))
    conversation, identities = Conversation(), set()
    async with Model(
        "local:smollm2", application=application, max_tokens=4, temperature=0.0
    ) as model:
        for turn in range(turns):
            text = "My cat is called Mia." if turn == 2 else f"Is {turn} a number? {words}"
            message = conversation.add_user_message(text)
            if turn == 2:
                conversation.pin(message)
            conversation = await model.make_room(conversation)
            response = await model.ask(conversation)
            usage = response.metadata.usage  # without that of summaries
            assert usage is not None
            assert (usage.total_input_tokens or 0) <= 512 - 4
            conversation.add_canisters(response.canisters)
            identities.add(conversation.id)
        answers: list[str] = []
        for seed in range(20):  # what so small a model says differs from one processor to another
            asked = conversation.fork()
            asked.add_user_message(QUESTIONS[seed % len(QUESTIONS)])
            asked = await model.make_room(asked)
            controls = {"max_tokens": 30, "temperature": 0.0 if seed < len(QUESTIONS) else 0.7}
            answers.append((await model.ask(asked, controls={**controls, "seed": seed})).text)
            if "Mia" in answers[-1]:
                break

    assert len(identities) > turns // 20  # a compaction makes room for some ten turns
    summary = find_summary(asked.canisters)
    assert summary is not None
    assert summary.summarizes is not None
    assert summary.summarizes.origins[0].usage is not None
    assert "My cat is called Mia." in [text_of(each) for each in asked.canisters]
    assert "Mia" in answers[-1], answers


COMPACTOR = """
import asyncio, sys
from pathlib import Path
from vibe_llms import Model
from vibe_llms.application import Application
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.conversation import Conversation

async def main(root, identity):
    store = DirectoryStore(root / "store")
    parent = Conversation.restore(store, identity)
    model = Model("scripted:echo", application=Application.load())
    print("ready", flush=True)
    while True:
        fork = await parent.compact(model)
        for _ in range(20):
            fork = parent.fork_compacted(fork.canisters)
            fork.save(store)
            print(fork.id, flush=True)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.mark.slow
def test_kill_9_leaves_the_parent_and_whole_forks(tmp_path: Path) -> None:
    """Killed at random moments: every stored fork has its summary, the parent all its bytes."""
    store = DirectoryStore(tmp_path / "store")
    conversation = Conversation()
    for number in range(40):
        conversation.add_user_message(f"Question {number} " + "word " * 50)
        conversation.add_canister(AssistantCanister(f"Answer {number}"))
    conversation.save(store)
    folder = Path(store.locate(conversation.id))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    acknowledged: list[str] = []
    chance = random.Random(3)
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", COMPACTOR, tmp_path, conversation.id],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        acknowledged += [process.stdout.readline().strip() for _ in range(2)]
        time.sleep(chance.uniform(0, 0.4))
        process.kill()
        acknowledged += process.stdout.read().split()
        process.wait()
        process.stdout.close()

    fresh = DirectoryStore(tmp_path / "store")
    assert len(acknowledged) > 10
    forks = set(fresh.survey()) - {conversation.id}
    assert set(acknowledged) <= forks
    for identity in forks:
        canisters = fresh.read(identity).canisters
        assert find_summary(canisters) is canisters[0]
        assert len(canisters) == 9
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert verify(fresh).findings == ()
