"""What the last event of a run says, and what few lines say of whether it is asked for again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from support.stores.postgresql_server import opened
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log_lines import write_line
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
    StateEnteredEvent,
)
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, NodeStartedEvent
from vibe_llms.events.runs import (
    RunRequestedEvent,
    RunResumedEvent,
    RunRetriedEvent,
    StopRequestedEvent,
)
from vibe_llms.exceptions import StoreError
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.surveying import (
    STATES,
    fold_log,
    is_over,
    is_requested_again,
    read_summary,
    summarize_run,
    survey_states,
)

ORDER = RunRequestedEvent(spec={"model": "m"})
IDENTITY = "a" * 32
STOP = StopRequestedEvent(message_id="l")
STARTED = RunStartedEvent(run_id="r", conversation_id="c", length=1)
ENDED = RunEndedEvent(run_id="r", reason="answered")
SUSPENDED = RunSuspendedEvent(run_id="r", digests=())
FLOW = FlowStartedEvent(run_id="r")
FLOW_WAITS = FlowEndedEvent(run_id="r", reason="waiting")
RESTED, WAITS = (survey_states(each) for each in (ENDED, SUSPENDED))
ASKED = ApprovalRequestedEvent(key="k", invocation_id="i", name="f", arguments="{}", digest="d")
ANSWERED = ApprovalAnsweredEvent(key="k", name="f", digest="d", decision="allow")


@pytest.mark.parametrize(
    ("event", "states"),
    [
        (ORDER, {"queued", "working", "broken_off"}),
        (STARTED, {"working", "broken_off", "stopped"}),
        (FLOW, {"working", "broken_off", "stopped"}),
        (SUSPENDED, {"queued", "waiting", "due"}),
        (FLOW_WAITS, {"queued", "waiting", "due"}),
        (ENDED, {"queued", "ended"}),
        (FlowEndedEvent(run_id="r", reason="ended"), {"queued", "ended"}),
        (RunEndedEvent(run_id="r", reason="cancelled"), {*STATES}),
        (FlowEndedEvent(run_id="r", reason="cancelled"), {*STATES}),
        (RunResumedEvent(), {*STATES}),
    ],
)
def test_the_last_event_says_in_which_states_a_run_may_be(event: Any, states: set[str]) -> None:
    assert survey_states(event) == states


def told(*pieces: list[Any] | bytes) -> Any:
    """Returns a log that comes in these pieces, of events or of bytes."""
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    raw = [
        piece
        if isinstance(piece, bytes)
        else b"".join(write_line(n, moment, "r", each) + b"\n" for n, each in enumerate(piece, 1))
        for piece in pieces
    ]
    return SimpleNamespace(
        tail=lambda: SimpleNamespace(read_raw=lambda: (raw.pop(0) if raw else b"", 0))
    )


@pytest.mark.parametrize(
    ("events", "is_again"),
    [
        ([ORDER, STARTED, ENDED], False),
        ([ORDER, STARTED, ORDER, ENDED], True),
        ([ORDER, FLOW, ORDER, FLOW_WAITS], True),
        ([STARTED, ORDER, SUSPENDED], True),
        ([STARTED, ORDER, STARTED, ENDED], False),
        ([ENDED], False),
        ([ORDER, ENDED], False),
        ([STARTED, ORDER], False),
        ([STARTED], False),
        ([STARTED, ENDED, ENDED], False),
        ([STARTED, ORDER, ENDED, ORDER, ENDED], False),
    ],
)
def test_a_run_is_asked_for_again_by_a_request_that_came_while_it_worked(
    events: list[Any], is_again: bool
) -> None:
    for possible in (RESTED, WAITS):
        assert is_requested_again(told(events), possible) == is_again
        quiet = [StateEnteredEvent(state="generate", turn=0)]
        pieces = [piece for event in events for piece in (quiet, [event], b"{ no turn }\n")]
        assert is_requested_again(told(*pieces), possible) == is_again
    assert is_over(told(events), ENDED) != is_again
    assert not is_over(told(events), SUSPENDED)
    assert is_requested_again(told(events), frozenset(STATES))


def test_a_line_that_does_not_read_is_left_to_who_reads_it_whole() -> None:
    assert is_requested_again(told([STARTED], b'{"run.ended"\n', [ENDED]), RESTED)


def begin(store: MemoryStore, identity: str, *events: Any) -> None:
    store.create(identity, ConversationMetadata())
    log = store.open_log(identity)
    log.claim()
    for event in events:
        log.append("r", event)
    log.close()


@pytest.mark.parametrize(
    ("visits", "state", "waiting"),
    [
        ([], "due", 0),
        ([[STARTED, ASKED, SUSPENDED]], "waiting", 1),
        ([[STARTED, ASKED, SUSPENDED], [STARTED, ASKED, SUSPENDED]], "waiting", 2),
        ([[STARTED, ASKED, SUSPENDED], [STARTED, ASKED, SUSPENDED, ANSWERED]], "due", 1),
        ([[STARTED, ENDED]], "due", 0),
    ],
)
def test_a_flow_that_rests_waits_for_what_its_visits_wait_for(
    visits: list[Any], state: str, waiting: int
) -> None:
    """One that was cut off before anything was said is none; the same reader reads them all."""
    store, read = MemoryStore(), list[str]()
    started = [
        NodeStartedEvent(node="P", visit=1, branch=number, conversation_id=f"v{number}")
        for number in range(3)
    ]
    begin(store, "flow", FLOW, *started, FLOW_WAITS)
    for number, events in enumerate(visits):
        begin(store, f"v{number}", *events)

    def note(store: Any, identity: str) -> Any:
        read.append(identity)
        return fold_log(store, identity)

    summary = summarize_run(store, "flow", note)

    assert summary is not None
    assert (summary.state, summary.waiting) == (state, waiting)
    assert read == ["flow", "v0", "v1", "v2"]
    works = attrs.evolve(FLOW_WAITS, reason="ended")
    begin(store, "ended", FLOW, *started, works)
    ended = summarize_run(store, "ended")
    assert ended is not None
    assert ended.state == "ended"


def test_what_a_log_does_not_say_its_conversation_does() -> None:
    """Its name is told rather than that of an order; its model where the log names none."""
    store = MemoryStore()
    ordered = RunRequestedEvent(spec={"model": "o:m", "name": "Ordered"})
    for identity, name, events in (
        ("named", "Named", [STARTED]),
        ("both", "Named", [ordered]),
        ("ordered", None, [ordered]),
    ):
        begin(store, identity, *events)
        store.update_metadata(identity, name=name, model="c:m")
    store.create("none", ConversationMetadata())
    store.fork("none", child="fork")
    begin_again = store.open_log("fork")
    begin_again.claim()
    begin_again.append("r", STARTED)
    begin_again.close()

    told = [summarize_run(store, each) for each in ("named", "both", "ordered", "fork")]

    assert [(each.name, each.model, each.origin) for each in told if each] == [
        ("Named", "c:m", ""),
        ("Named", "o:m", ""),
        ("Ordered", "o:m", ""),
        ("", "", "none"),
    ]
    assert summarize_run(store, "none") is None
    with pytest.raises(StoreError, match=r"none is a conversation without a run.*runs list"):
        read_summary(store, "none")


@pytest.mark.parametrize(
    "kind",
    ["memory", "directory", pytest.param("postgresql", marks=pytest.mark.postgresql)],
)
@pytest.mark.parametrize("last", [[STARTED], [FLOW], [STARTED, STOP]])
def test_a_run_whose_process_is_gone_has_broken_off(
    tmp_path: Path, kind: str, last: list[Any]
) -> None:
    """Its log is claimed as long as it lives; one that was told to stop is stopped by then."""
    with open_store(kind, tmp_path) as store:
        store.create(IDENTITY, ConversationMetadata())
        log = store.open_log(IDENTITY)
        log.claim()
        for event in last:
            log.append("r", event)
        alive = read_summary(store, IDENTITY)
        log.close()
        gone = read_summary(store, IDENTITY)
        index = RunIndex(store)
        index.active_ids = {IDENTITY}  # by a host that is about to take it up
        active_ids = index.read_summary(IDENTITY)

    is_stopped = STOP in last
    assert (alive.state, alive.starts) == ("stopped" if is_stopped else "working", 1)
    assert (gone.state, gone.starts) == ("stopped" if is_stopped else "broken_off", 0)
    assert active_ids.state == alive.state


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_a_run_that_ends_while_it_is_looked_at_has_not_broken_off(
    tmp_path: Path, kind: str
) -> None:
    """It gives its log up after its last line, which a reader of the lines before has not seen."""
    with open_store(kind, tmp_path) as store:
        store.create(IDENTITY, ConversationMetadata())
        log = store.open_log(IDENTITY)
        log.claim()
        log.append("r", STARTED)
        endings = [ENDED]

        def read(*given: Any) -> Any:
            found = fold_log(*given)
            if endings:
                log.append("r", endings.pop())
                log.close()
            return found

        summary = summarize_run(store, IDENTITY, read)

    assert summary is not None
    assert summary.state == "ended"


def test_a_reader_that_is_always_late_is_not_waited_for(tmp_path: Path) -> None:
    """As while a database comes back; the run counts as what was read last."""
    with open_store("directory", tmp_path) as store:
        store.create(IDENTITY, ConversationMetadata())
        log = store.open_log(IDENTITY)
        log.claim()
        log.append("r", STARTED)
        log.close()
        late = fold_log(store, IDENTITY)
        log = store.open_log(IDENTITY)
        log.claim()
        log.append("r", STARTED)
        log.close()

        summary = summarize_run(store, IDENTITY, lambda *_: late)

    assert summary is not None
    assert summary.state == "broken_off"


def test_a_run_that_is_tried_again_later_has_not_broken_off() -> None:
    """Nobody has its log meanwhile; when its time has come, somebody has to take it."""
    for seconds, state in ((600.0, "working"), (0.0, "due")):
        store = MemoryStore()
        retried = RunRetriedEvent(detail="No gateway.", attempt=1, seconds=seconds)
        begin(store, IDENTITY, ORDER, STARTED, retried)
        assert read_summary(store, IDENTITY).state == state


def test_who_looks_whether_a_log_is_claimed_keeps_nobody_from_claiming_it(tmp_path: Path) -> None:
    """They have its lock for a moment."""
    store = DirectoryStore(tmp_path)
    store.create(IDENTITY, ConversationMetadata())
    log = store.open_log(IDENTITY)
    log.claim()
    log.close()
    is_over, seen = threading.Event(), set[bool]()

    def look() -> None:
        was_over = False
        while not was_over:
            was_over = is_over.is_set()  # once more after the last claim
            seen.add(store.open_log(IDENTITY).is_claimed)

    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(look)
        try:
            for _ in range(300):
                log.claim()
                log.close()
        finally:
            is_over.set()
        looking.result()
    assert False in seen


@contextmanager
def open_store(kind: str, folder: Path) -> Iterator[ConversationStore]:
    """Gives an empty store of a kind."""
    if kind == "memory":
        yield MemoryStore()
    elif kind == "directory":
        yield DirectoryStore(folder)
    else:
        with opened(folder) as store:
            yield store
