"""Workers are killed before and after each event of a run, on every runner."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.runs.acting import invoke, say
from support.runs.scripting import write_script
from support.screens.command_line import produce_environment
from support.stores.postgresql_server import produce_url
from vibe_llms.conversations import ConversationStore, DirectoryStore
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.messages.views import text_of
from vibe_llms.runs.replaying import replay_run

PROGRAM = Path(__file__).parents[1] / "support" / "runs" / "worker_kills_runner.py"
LACKING = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
TURNS = (
    [invoke("look", "a", where="x"), invoke("look", "b", where="y")],
    [invoke("pay", "c")],
    [say("Done.")],
)
BATCHES = Path(__file__).parents[1] / "support" / "batches" / "batch_kills_runner.py"
EVENTS = 15
"""How many a run has at least: three answers, three calls, and what is between them."""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    "base",
    [
        "local",
        pytest.param("sqlite", marks=LACKING),
        pytest.param("postgresql", marks=[LACKING, pytest.mark.postgresql]),
    ],
)
async def test_kill_9_at_each_event_of_a_run(tmp_path: Path, base: str, moment: str) -> None:
    """The next process resumes the run: its conversation is complete, tools that must run once do,
    and every repeated request to the model is reported.
    """
    path = write_script(tmp_path, *({"contents": turn} for turn in TURNS))
    store: ConversationStore = DirectoryStore(tmp_path / ".local" / "share" / "vibe-llms")
    url = "local:" if base == "local" else f"sqlite:///{tmp_path}/runner.db"
    if base == "postgresql":
        url = produce_url(tmp_path)
        store = PostgresqlStore(url)
    environment = produce_environment(tmp_path, VIBE_LLMS_MODEL=f"scripted:{path}")
    program = [sys.executable, PROGRAM, url, tmp_path, moment]
    done = subprocess.run(  # noqa: ASYNC221  # nothing else goes on meanwhile
        program, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr

    died = int(done.stdout)
    assert died >= EVENTS
    paid = {file.stem: file.read_text() for file in tmp_path.glob("*.paid")}
    assert paid == {f"{moment}-{event}": "paid\n" for event in range(1, died + 2)}
    identities = [*store.survey()]
    assert len(identities) == died + 1
    for identity in identities:
        texts = [text_of(each) for each in store.read(identity).canisters]
        assert [text for text in texts if text][1:3] == ["seen: x", "seen: y"]
        assert texts[-1] == "Done."
        kinds = Counter(each.event.type for each in store.open_log(identity).read())
        ends = ("generation.finished", "generation.doubted", "generation.failed")
        assert kinds["generation.started"] == sum(kinds[each] for each in ends)
        assert (await replay_run(store, identity)).difference is None
    if isinstance(store, PostgresqlStore):
        store.database.close()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
@pytest.mark.parametrize(
    ("base", "moment"),
    [
        ("sqlite", "before"),
        ("sqlite", "after"),
        pytest.param("postgresql", "after", marks=pytest.mark.postgresql),
    ],
)
def test_kill_9_at_each_event_of_a_run_of_a_batch(tmp_path: Path, base: str, moment: str) -> None:
    """The next worker resumes the run: the item has its answer, tools that must run once do, and
    nothing of the run is left.
    """
    url = produce_url(tmp_path) if base == "postgresql" else f"sqlite:///{tmp_path}/runner.db"
    program = [sys.executable, BATCHES, url, tmp_path, moment]
    done = subprocess.run(
        program,
        env=produce_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= EVENTS
