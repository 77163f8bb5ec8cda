"""Kills a worker at each step of a compaction, and lets another one finish the run, or stops it.

A program of its own, since it forks. Prints counts as JSON; a wrong state is a failed assertion.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the tests themselves have it

from support.conversations.long_chats import is_summarizing
from support.runs.acting import say
from support.runs.hosted import Premises
from support.runs.killing import World, run_child
from support.runs.scripting import write_script
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.conversations import verify
from vibe_llms.conversations.compaction import read_whole
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.providers.scripted.client import ScriptedModel
from vibe_llms.runs.owners import read_subject

TURNS, TALK = 24, "long"
CONFIGURATION = """
[[models]]
provider = "scripted"
pattern = ".*"
context_window_tokens = 1400
"""
SCRIPT: tuple[dict[str, Any], ...] = (
    {"match": "user: |assistant: |Summary so far", "contents": [say("They talked.")]},
    {"contents": [say("You said: {input}")]},
)


async def prepare(folder: Path) -> None:
    """Store a long conversation and the request of a run."""
    (folder / "none.toml").write_text(CONFIGURATION)
    spec = RunSpec(model=f"scripted:{write_script(folder, *SCRIPT)}", window="summarize")
    premises = Premises(folder)
    premises.runs.host = None
    talk = Conversation(id=TALK)
    for number in range(TURNS):
        talk.add_user_message(f"Question {number} " + "word " * 40)
        talk.add_canister(AssistantCanister("All right.", turn_id=f"t{number}"))
    talk.save(premises.store)
    await premises.runs.start(spec, [UserCanister("What now?")], conversation=TALK)


def pay_for_summaries(world: World) -> None:
    """Note each summary, as a vendor's bill does."""
    play = ScriptedModel.send

    async def send(self: Any, native: Any, request: Any, **more: Any) -> Any:
        if is_summarizing(request):
            world.note("paid", b"summary")
        return await play(self, native, request, **more)

    ScriptedModel.send = send  # type: ignore[method-assign]


async def work(folder: Path) -> None:
    """Execute the run and that of its fork."""
    async with Premises(folder) as premises:
        ended = await premises.wait(TALK, "ended")
        await premises.wait(ended.continued_in, "ended")


async def judge(folder: Path) -> None:
    """Assert that both conversations have the message once, and the fork has the only answer."""
    premises = Premises(folder)
    parent = await premises.runs.find(TALK)
    assert parent.reason == "continued", parent
    store, fork = premises.store, parent.continued_in
    assert sorted(store.survey()) == sorted([TALK, fork])
    assert (await premises.runs.find(fork)).reason == "answered"
    for identity in (TALK, fork):
        texts = [text_of(each) for each in store.read(identity).canisters]
        assert texts.count("What now?") == 1, texts
        assert texts.count("You said: What now?") == (identity == fork), texts
    whole, findings = read_whole(store, store.read(fork))
    assert (findings, len(whole)) == ([], 2 * TURNS + 3)
    assert verify(store).findings == ()


def find_unstarted_fork(folder: Path) -> str:
    """Return the fork whose run nobody has started yet; empty without one."""
    premises = Premises(folder)
    for identity in premises.store.survey():
        if identity != TALK and read_subject(premises.store, identity) is not None:
            return "" if "run.started" in premises.read_kinds(identity) else identity
    return ""


async def stop(folder: Path, fork: str) -> None:
    """Stop the run while no worker lives; assert that later workers do not answer."""
    other = Premises(folder)
    other.runs.host = None
    await other.runs.stop(TALK)
    async with Premises(folder) as premises:
        spec = RunSpec(model=(await other.runs.find(TALK)).model)
        found = await other.runs.start(spec, [UserCanister("Another")])
        await premises.wait(found.id, "ended")  # found by a scan, like all else that is due
        assert (await premises.runs.find(fork)).state == "stopped"
        assert (await premises.runs.find(TALK)).state in ("stopped", "ended")
    for identity in (TALK, fork):
        texts = [text_of(each) for each in other.store.read(identity).canisters]
        assert "You said: What now?" not in texts, (identity, texts)


def main(root: Path, step: int) -> None:
    """Kill at each step, or at each n-th."""
    (root / "origin").mkdir()
    asyncio.run(prepare(root / "origin"))
    seen: Counter[str] = Counter()
    for at in range(step, 10_000, step):
        folder = root / f"{at}"
        shutil.copytree(root / "origin", folder)
        world = World(folder)
        for file in (folder / "none.toml",):
            file.write_text(file.read_text().replace(str(root / "origin"), str(folder)))
        pay_for_summaries(world)
        steps = run_child(world, at, lambda folder=folder: work(folder), tears=at % 2 == 0)
        if steps is not None:
            seen["steps"] = steps
            seen["price"] = len(world.read("paid"))
            break
        store, before = Premises(folder).store, len(world.read("paid"))
        is_stored = any(
            identity != TALK and read_subject(store, identity) is not None
            for identity in store.survey()
        )
        if fork := find_unstarted_fork(folder):
            copy = root / f"{at}-stopped"
            shutil.copytree(folder, copy)
            (copy / "none.toml").write_text(CONFIGURATION)
            asyncio.run(stop(copy, fork))
            seen["stopped"] += 1
        run_child(world, 0, lambda folder=folder: work(folder), tears=False)
        asyncio.run(judge(folder))
        more = len(world.read("paid")) - before
        if is_stored:
            assert more == 0, (at, more)
        seen["stored"] += is_stored
        seen["paid again"] += bool(before and more)
        seen["killed"] += 1
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
