"""Measures of logs, by which unchanged ones are passed over."""

from __future__ import annotations

from pathlib import Path

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import RunStartedEvent
from vibe_llms.messages.canisters import UserCanister

STARTED = RunStartedEvent(run_id="r", conversation_id="c", length=1)


def write(log: RunLog) -> None:
    log.claim()
    log.append("r", STARTED)
    log.close()


def test_a_measure_that_is_the_same_says_that_nothing_was_added(tmp_path: Path) -> None:
    """That of another log under the same id is another, also where it is as long."""
    stores = [MemoryStore(), DirectoryStore(tmp_path)]
    for store in stores:
        Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
        log = store.open_log("a")
        measures = [store.open_log("a").measure()]
        for _ in range(2):
            write(log)
            assert store.open_log("a").measure() == store.open_log("a").measure()
            measures.append(store.open_log("a").measure())
        assert measures[0] is None
        assert None not in measures[1:]
        assert measures[1] != measures[2]
        kept = Path(store.locate("a")) if isinstance(store, DirectoryStore) else None
        if kept is not None:  # its number in the file system is not given again
            kept.rename(tmp_path / "kept")
        else:
            store.delete("a")
        Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
        write(store.open_log("a"))
        assert store.open_log("a").measure() not in measures
        assert log is not store.open_log("a")
    Path(stores[1].locate("a"), "runs.jsonl").write_bytes(b"")  # type: ignore[union-attr]
    assert stores[1].open_log("a").measure() is None
