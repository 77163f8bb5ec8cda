"""Several processes write to one store, and some of them die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.quality.properties import STEP
from vibe_llms.conversations import DirectoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.proof import collect_content, plan_collection
from vibe_llms.exceptions import StoreError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of

ROUNDS = 300 // STEP
HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.samples
def test_000_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Killed at many random moments: all acknowledged is there, once, whole, and in order."""
    subprocess.run(
        [sys.executable, HERE / "store_writers.py", tmp_path, str(ROUNDS)], check=True, timeout=300
    )

    store = DirectoryStore(tmp_path)
    acknowledged = json.loads((tmp_path / "acknowledged.json").read_text())
    assert sum(map(len, acknowledged.values())) > ROUNDS // 2
    for identity, labels in acknowledged.items():
        texts = [text_of(canister) for canister in store.read(identity).canisters]
        assert all(text.endswith(" end") for text in texts)
        stored = [text.split(" ", 1)[0] for text in texts]
        assert len(set(stored)) == len(stored)
        assert set(labels) <= set(stored)
        # What was written and never acknowledged, at most one a writer, may be there, too.
        assert len(set(stored) - set(labels)) <= 2 * 20
        for writer in {label.split(".")[0] for label in stored}:
            numbers = [
                int(label.split(".")[1]) for label in stored if label.startswith(f"{writer}.")
            ]
            assert numbers == list(range(1, len(numbers) + 1))
    assert verify(store).findings == ()


@contextmanager
def running(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Runs some Python until it says a line, and kills it in the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stdin.close()


ADDER = """
import sys
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.stores.content_directory import ContentDirectory
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import ImageContent

place = ContentDirectory.add_while_locked

def place_and_wait(self, data, **about):
    content_id = place(self, data, **about)
    print("ready", flush=True)
    sys.stdin.readline()  # between the content and the message that refers to it
    return content_id

ContentDirectory.add_while_locked = place_and_wait
store = DirectoryStore(sys.argv[1])
store.append("a", [UserCanister([ImageContent(mime_type="image/png", data=b"picture")])])
print("done", flush=True)
sys.stdin.readline()
"""


def test_010_collecting_never_takes_what_a_process_is_adding(tmp_path: Path) -> None:
    """While content is there and its message is not yet, a collection waits, then gives up."""
    store = DirectoryStore(tmp_path, wait_seconds=0.1)
    store.create("a", ConversationMetadata())

    with running(ADDER, tmp_path) as adder:
        plan = plan_collection(store, grace_seconds=0)
        assert len(plan.content_ids) == 1
        with pytest.raises(StoreError, match=r"content/\.lock"):
            collect_content(store, plan, grace_seconds=0)

        adder.stdin.write("go on\n")
        adder.stdin.flush()
        assert adder.stdout.readline() == "done\n"

        assert collect_content(store, plan, grace_seconds=0).content_ids == ()
    assert verify(store).findings == ()


def test_011_who_was_killed_while_adding_leaves_nothing_for_ever(tmp_path: Path) -> None:
    """A lock ends with the process that holds it; what it has left behind is collected."""
    store = DirectoryStore(tmp_path, wait_seconds=5)
    store.create("a", ConversationMetadata())
    with running(ADDER, tmp_path) as adder:
        adder.send_signal(signal.SIGKILL)
        adder.wait()

    removed = collect_content(store, plan_collection(store, grace_seconds=0), grace_seconds=0)

    assert len(removed.content_ids) == 1
    assert store.read("a").canisters == ()


HOLDER = """
import sys
from vibe_llms.logs.locks import acquire
lock = acquire(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
"""


def test_020_a_lock_is_waited_for_within_bounds(tmp_path: Path) -> None:
    """A process that hangs with a conversation locked is named by its lock, and does no harm."""
    store = DirectoryStore(tmp_path, wait_seconds=0.1)
    store.create("a", ConversationMetadata())

    with running(HOLDER, store.layout.conversation_lock("a")):
        for attempt in (
            lambda: store.append("a", [UserCanister("x")]),
            lambda: store.fork("a"),
            lambda: store.delete("a"),
        ):
            with pytest.raises(StoreError, match=r"conversations/_\w+/a/lock"):
                attempt()

    store.append("a", [UserCanister("x")])
    assert len(store.read("a").canisters) == 1


FORKER = """
import sys
from vibe_llms.conversations import DirectoryStore
from vibe_llms.exceptions import UnknownConversationError
from vibe_llms.messages.canisters import UserCanister

store = DirectoryStore(sys.argv[1])
print("ready", flush=True)
made = []
try:
    while True:
        child = store.fork("parent")
        store.append(child, [UserCanister("own")])
        made.append(child)
except UnknownConversationError:
    print(" ".join(made), flush=True)
"""


@pytest.mark.slow
def test_030_forking_and_deleting_at_once_loses_no_fork(tmp_path: Path) -> None:
    """Every fork that was acknowledged has its history, though its parent went meanwhile."""
    store = DirectoryStore(tmp_path)
    store.create("parent", ConversationMetadata())
    store.append("parent", [UserCanister(str(number)) for number in range(50)])

    with running(FORKER, tmp_path) as one, running(FORKER, tmp_path) as two:
        while len(list(store.survey())) < 20:
            os.sched_yield()
        store.delete("parent")
        made = [*one.stdout.readline().split(), *two.stdout.readline().split()]

    assert len(made) >= 15
    for child in made:
        assert [text_of(canister) for canister in store.read(child).canisters] == [
            *map(str, range(50)),
            "own",
        ]
    assert verify(store).findings == ()
