"""An index knows where the runs of a store stand, and reads no more than is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.stores.disks import HastyDisk
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs import log_lines
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.conversations.tags import PART_TAG, is_part
from vibe_llms.events.engine import (
    InvocationProgressEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent
from vibe_llms.events.runs import RunRequestedEvent, RunResumedEvent, StopRequestedEvent
from vibe_llms.exceptions import CodecError, CorruptionError, UnknownConversationError
from vibe_llms.runs import folding, indexing, read_summary, survey_runs
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.owners import read_subject
from vibe_llms.runs.summaries import RunState, RunSummary
from vibe_llms.runs.surveying import RESTS, STATES, is_over

ORDER = RunRequestedEvent(spec={"model": "m"}, subject="ann")
STARTED = RunStartedEvent(run_id="r", conversation_id="c", length=1)
ENDED = RunEndedEvent(run_id="r", reason="answered")
EVENTS: list[Any] = [ORDER, STARTED, ENDED, RunResumedEvent(), StopRequestedEvent()]


def begin(store: Any, number: int, *events: Any) -> str:
    """Makes a run in whose log these events are."""
    identity = f"{number:032x}"
    store.create(identity, ConversationMetadata())
    grow(store, identity, *events)
    return identity


def grow(store: Any, identity: str, *events: Any) -> None:
    log = store.open_log(identity)
    log.claim()
    for event in events:
        log.append("r", event)
    log.close()


_opened: list[str] | None = None


def _hear(name: str, arguments: tuple[Any, ...]) -> None:
    if name == "open" and _opened is not None:
        _opened.append(str(arguments[0]))


sys.addaudithook(_hear)


@contextmanager
def watching_files() -> Iterator[list[str]]:
    """Gives the paths of all files that are opened meanwhile."""
    global _opened
    _opened = found = []
    try:
        yield found
    finally:
        _opened = None


def survey_logs(opened: list[str]) -> set[str]:
    """Returns the ids of the runs whose logs were opened."""
    return {Path(path).parent.name for path in opened if path.endswith("runs.jsonl")}


@contextmanager
def counting_looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Gives the paths of which only the size is asked meanwhile."""
    found: list[str] = []
    look: Callable[..., Any] = os.stat

    def stat(path: Any, *given: Any, **named: Any) -> Any:
        found.append(str(path))
        return look(path, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        yield found


def read_all(store: MemoryStore, states: Collection[RunState]) -> list[RunSummary]:
    """Reads where each run stands, and sorts what is wanted, as plainly as it can be done."""
    ran = [each for each in store.survey() if store.open_log(each).read_last() is not None]
    whole = [each for each in ran if not is_part(store.read_metadata(each).tags)]
    found = [each for each in (read_summary(store, one) for one in whole) if each.state in states]
    return sorted(found, key=lambda each: (each.updated, each.id), reverse=True)


@pytest.mark.slow
@given(data=st.data())
def test_it_says_what_reading_all_logs_says(data: st.DataObject) -> None:
    store = MemoryStore()
    index = RunIndex(store)
    ids: list[str] = []
    numbers = count(100)  # no id comes twice, also when a run was deleted
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["begin", "grow", "delete", "look", "part"])):
            case "begin":
                ids.append(begin(store, next(numbers), data.draw(st.sampled_from(EVENTS))))
            case "grow" if ids:
                grow(store, data.draw(st.sampled_from(ids)), data.draw(st.sampled_from(EVENTS)))
            case "delete" if ids:
                store.delete(ids.pop(data.draw(st.integers(0, len(ids) - 1))))
                ids = [*ids]
            case "part":
                identity = f"{data.draw(st.integers(0, 9)):032x}"
                if identity not in set(store.survey()):
                    store.create(identity, ConversationMetadata(tags=(PART_TAG + "x",)))
                grow(store, identity, STARTED)
            case "look":
                index.refresh(check_all=True)
        ids = [each for each in ids if each in set(store.survey())]
        states = data.draw(st.sets(st.sampled_from(STATES), min_size=1))
        index.refresh(check_all=True)
        found = index.survey(states=states)
        assert found == read_all(store, states) == [*survey_runs(store, states=states)]
        assert [index.read_summary(each.id) for each in found] == found
        owner = data.draw(st.sampled_from(["ann", ""]))
        hers = [each for each in found if (read_subject(store, each.id) or "") == owner]
        assert index.survey(states=states, owner=owner) == hers
        if found:
            place = data.draw(st.integers(0, len(found) - 1))
            rest = index.survey(states=states, after=found[place].id, limit=2)
            assert rest == found[place + 1 : place + 3]


def test_a_page_reads_the_logs_of_its_runs_alone(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    ids = [begin(store, number, ORDER, STARTED, ENDED) for number in range(50)]
    index = RunIndex(store)
    index.refresh()
    with watching_files() as opened:
        index.refresh()
        page = index.survey(states=["ended"], owner="ann", limit=3)
    assert [each.id for each in page] == ids[:-4:-1]
    assert survey_logs(opened) == {*ids[-3:]}
    with watching_files() as opened:
        assert index.survey(states=["ended"], owner="ann", limit=3) == page
    assert survey_logs(opened) == set()


def test_looking_again_opens_nothing_and_sees_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    ids = [begin(store, number, ORDER, STARTED, ENDED) for number in range(50)]
    index = RunIndex(store)
    index.refresh(check_all=True)
    assert index.survey(states=["queued", "due", "working"]) == []
    with watching_files() as opened, counting_looks(monkeypatch) as looked:
        index.refresh(check_all=True)
        assert index.survey(states=["queued", "due", "working"]) == []
    assert survey_logs(opened) == set()
    assert len(looked) == len(ids)
    grow(store, ids[7], RunResumedEvent())
    with watching_files() as opened:
        index.refresh(check_all=True)
        (found,) = index.survey(states=["queued", "due", "working"])
    assert found.id == ids[7]
    assert survey_logs(opened) == {ids[7]}


def test_a_log_is_read_on_where_it_was_read_last(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    identity = begin(store, 1, ORDER, STARTED)
    index = RunIndex(store)
    assert index.read_summary(identity).state == "broken_off"
    path = Path(store.locate(identity)) / "runs.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"run.requested", b"run.requestid"))  # is not read again
    grow(store, identity, ENDED)
    assert index.read_summary(identity).state == "ended"
    with pytest.raises(CorruptionError, match=r"runs\.jsonl"):
        RunIndex(store).read_summary(identity)


def test_another_run_under_the_same_id_is_another(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    identity = begin(store, 1, ORDER, STARTED, ENDED)
    index = RunIndex(store)
    index.refresh()
    assert index.read_summary(identity).state == "ended"
    store.delete(identity)
    with pytest.raises(UnknownConversationError):
        index.read_summary(identity)
    begin(store, 1, ORDER)
    assert index.read_summary(identity) == read_summary(store, identity)


def test_others_are_no_place_to_begin_behind(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    identity = begin(store, 1, ORDER)
    index = RunIndex(store)
    index.refresh()
    assert read_subject(store, identity) == "ann"
    assert index.survey(owner="bob") == []
    assert index.survey(owner="ann", after=identity) == []
    with pytest.raises(UnknownConversationError) as raised:
        index.survey(owner="bob", after=identity)
    assert raised.value.identity == identity


def test_a_page_passes_over_what_is_not_wanted_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs the same, however many others there are."""
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    for number in range(20):
        begin(store, number, ORDER, STARTED, ENDED)
    waits = begin(store, 20, STARTED, RunSuspendedEvent(run_id="r", digests=()))
    index = RunIndex(store)
    index.refresh()
    assert index.survey(owner="bob") == []  # whose each is, is known from now on
    looked: list[str] = []
    look = RunIndex._may_be

    def may_be(self: RunIndex, entry: Any, wanted: Any) -> bool:
        looked.append(entry.identity)
        return look(self, entry, wanted)

    monkeypatch.setattr(RunIndex, "_may_be", may_be)
    assert index.survey(owner="bob") == []
    assert looked == []
    index.survey(states=["waiting", "due"])
    assert looked == [waits]


def test_whether_a_run_is_asked_for_again_is_read_once_and_from_few_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is decoded for it but the log of one that is; what was learned stays in order."""
    store = MemoryStore()
    ids = [begin(store, number, ORDER, STARTED, ENDED) for number in range(4)]
    again = begin(store, 9, ORDER, STARTED, ORDER, ENDED)
    index = RunIndex(store)
    index.refresh(check_all=True)
    opened, asked = list[object](), list[object]()
    open_one, ask = folding.open_envelope, indexing.is_requested_again

    def ask_again(log: Any, possible: Any) -> bool:
        asked.append(log)
        return ask(log, possible)

    monkeypatch.setattr(
        folding, "open_envelope", lambda line: opened.append(line) or open_one(line)
    )
    monkeypatch.setattr(indexing, "is_requested_again", ask_again)
    for count_asked in (5, 6):
        assert [each.id for each in index.survey(states=["queued", "due"])] == [again]
        assert len(opened) == 4
        assert len(asked) == count_asked
    assert index.survey(states=["ended"]) == read_all(store, ["ended"])
    for identity in (ids[0], ids[2], again):
        grow(store, identity, RunResumedEvent())
        index.refresh(check_all=True)
        assert index.survey() == read_all(store, STATES)


def test_whose_a_run_is_is_read_once_also_where_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As is whether it is part of another."""
    store, asked = MemoryStore(), list[str]()

    def read(store: Any, identity: str) -> str | None:
        asked.append(identity)
        return read_subject(store, identity)

    monkeypatch.setattr(indexing, "read_subject", read)
    identity = begin(store, 1, ORDER, STARTED)
    index = RunIndex(store)
    for event in (ENDED, RunResumedEvent(), ENDED):
        index.refresh(check_all=True)
        assert [each.id for each in index.survey(owner="ann")] == [identity]
        grow(store, identity, event)
    assert asked == [identity]


def test_what_is_looked_at_is_what_may_be_wanted_and_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is read twice; what is deleted meanwhile is passed over, and then forgotten."""
    store, looked, opened = MemoryStore(), list[str](), list[object]()
    ids = [begin(store, number, ORDER, STARTED, ENDED) for number in range(3)]
    broken = begin(store, 9, STARTED)
    index, look, read_last = RunIndex(store), RunIndex._may_be, MemoryLog.read_last

    def may_be(self: RunIndex, entry: Any, wanted: Any) -> bool:
        looked.append(entry.identity)
        return look(self, entry, wanted)

    def read(log: Any) -> Any:
        opened.append(log)
        return read_last(log)

    def measure(log: Any) -> Any:  # of all logs, and reads none
        last = read_last(log)
        return None if last is None else (id(log._shared), last.sequence)

    index.refresh(check_all=True)
    assert [each.id for each in index.survey(owner="ann")] == ids[::-1]  # whose they are is known
    monkeypatch.setattr(RunIndex, "_may_be", may_be)
    monkeypatch.setattr(MemoryLog, "read_last", read)
    monkeypatch.setattr(MemoryLog, "measure", measure)
    assert [each.id for each in index.survey(states=["broken_off"])] == [broken]
    assert looked == [broken]
    assert [each.id for each in index.survey(states=["ended"], owner="ann")] == ids[::-1]
    assert looked[1:] == ids[::-1]
    assert index.survey(owner="bob") == []
    assert looked[4:] == []
    assert [each.id for each in index.survey()] == [broken, *ids[::-1]]
    assert [each.id for each in index.survey(limit=2)] == [broken, ids[2]]
    opened.clear()
    index.refresh(check_all=True)
    assert opened == []
    unread: Any = SimpleNamespace(read=None)
    index._folds._foldings[ids[0]].tail = unread
    assert index.read_summary(ids[0]).state == "ended"
    store.delete(ids[2])
    assert [each.id for each in index.survey()] == [broken, ids[1], ids[0]]
    index.refresh(check_all=True)
    assert [each.id for each in index.survey(limit=2)] == [broken, ids[1]]
    opened.clear()
    begin(store, 10, STARTED)
    index.refresh(check_all=True)
    assert opened


def test_a_longer_log_under_the_same_id_is_another_all_the_same() -> None:
    store = MemoryStore()
    identity = begin(store, 1, ORDER, STARTED)
    former, index = store.open_log(identity), RunIndex(store)
    assert index.read_summary(identity).state == "broken_off"
    store.delete(identity)
    begin(store, 1, RunRequestedEvent(spec={"model": "m"}, subject="bob"), STARTED, ENDED, ORDER)
    assert store.open_log(identity) is not former
    assert index.read_summary(identity) == read_summary(store, identity)


def test_of_few_runs_it_is_kept_where_they_stand_those_last_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, made = MemoryStore(), list[str]()
    ids = [begin(store, number, ORDER, STARTED, ENDED) for number in range(3)]
    fold = indexing.RunFold
    monkeypatch.setattr(indexing, "_MAX_FOLDS", 2)
    monkeypatch.setattr(indexing, "RunFold", lambda each: made.append(each) or fold(each))
    index = RunIndex(store)
    for place in (0, 1, 2, 2, 1, 2, 0, 2, 1):
        assert index.read_summary(ids[place]).state == "ended"
    assert made == [*ids, ids[0], ids[1]]


def test_what_did_not_read_is_read_anew_when_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another thread has found the damage before."""
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    identity = begin(store, 1, ORDER, STARTED)
    index = RunIndex(store)
    assert index.read_summary(identity).state == "broken_off"
    grow(store, identity, ENDED)
    path = Path(store.locate(identity)) / "runs.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"run.ended", b"run.endid"))
    with pytest.raises(CorruptionError, match=r"runs\.jsonl"):
        index.read_summary(identity)
    path.write_bytes(whole)
    assert index.read_summary(identity).state == "ended"

    def fail(_: object) -> None:
        index._folds._foldings.clear()
        raise CodecError(detail="It does not read.")

    grow(store, identity, RunResumedEvent())
    monkeypatch.setattr(folding, "open_envelope", fail)
    assert index.read_summary(identity).state == "due"


def test_many_runs_are_looked_at_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look at all of them again takes a small part of the time, also where it takes long."""
    store, now, looked = DirectoryStore(tmp_path, disk=HastyDisk()), [100.0], [0]

    def measure_logs(_: DirectoryStore) -> dict[str, object]:
        looked[0] += 1
        now[0] += 3
        return {}

    monkeypatch.setattr(indexing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(DirectoryStore, "measure_logs", measure_logs)
    index = RunIndex(store)
    for _ in range(64):
        index.refresh()
        now[0] += 1
    assert looked == [2]
    index.refresh(check_all=True)
    assert looked == [3]


def test_a_run_of_nobody_is_his_who_orders_it_later() -> None:
    store = MemoryStore()
    index = RunIndex(store)
    identity = begin(store, 1, STARTED, ENDED)
    index.refresh(check_all=True)
    assert not index.survey(owner="ann")

    grow(store, identity, ORDER)
    index.refresh(check_all=True)

    assert [each.id for each in index.survey(owner="ann")] == [identity]


TURNS = st.sampled_from(
    [
        RunRequestedEvent(spec={"model": "m:n"}),
        RunRequestedEvent(spec={"model": "run.started"}),
        RunStartedEvent(run_id="r", conversation_id="c", length=1),
        FlowStartedEvent(run_id="r"),
        StopRequestedEvent(),
        RunResumedEvent(),
        RunSuspendedEvent(run_id="r", digests=()),
        *(RunEndedEvent(run_id="r", reason=word) for word in ("answered", "failed", "cancelled")),
        *(FlowEndedEvent(run_id="r", reason=word) for word in ("ended", "cancelled", "waiting")),
    ]
)


@pytest.mark.slow
@given(events=st.lists(TURNS, min_size=1, max_size=12))
def test_whether_a_run_is_over_is_known_from_few_lines(events: list[Any]) -> None:
    store = MemoryStore()
    store.create("c", ConversationMetadata())
    log, index = store.open_log("c"), RunIndex(store)
    for number, event in enumerate(events, 1):
        log.append("r", event)
        state = index.read_summary("c").state
        assert index.read_rest("c") == (number, state in RESTS)
        if is_over(log, event):
            assert state == "ended"


def test_the_end_of_a_long_log_is_known_without_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    store.create("c", ConversationMetadata())
    log = store.open_log("c")
    log.claim()
    log.append("r", RunRequestedEvent(spec={"model": "m:n"}))
    log.append("r", RunStartedEvent(run_id="r", conversation_id="c", length=1))
    for _ in range(100):
        log.append("r", InvocationProgressEvent(key="k", invocation_id="i", name="n", text="x"))
    last = log.append("r", RunEndedEvent(run_id="r", reason="answered"))
    log.close()
    decoded, decode = [], log_lines.decode_event
    monkeypatch.setattr(
        log_lines, "decode_event", lambda data: decoded.append(data) or decode(data)
    )
    assert RunIndex(store).read_rest("c") == (last, True)
    assert len(decoded) == 1
