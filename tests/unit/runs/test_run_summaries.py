"""Where a run stands, by the events of its log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.conversations import ConversationStore, DirectoryStore, MemoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.tags import PART_TAG
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    GenerationAnsweredEvent,
    GenerationDeferredEvent,
    GenerationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowStartedEvent,
    LogEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.events.runs import (
    MessageReceivedEvent,
    RunDetachedEvent,
    RunRequestedEvent,
    RunResumedEvent,
    RunRetriedEvent,
    StopRequestedEvent,
)
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.flows.courses import Course
from vibe_llms.messages.canisters import StopReason, Usage, UserCanister
from vibe_llms.runs.delivering import survey_open
from vibe_llms.runs.indexing import survey_runs
from vibe_llms.runs.summaries import RunFold, RunSummary, summarize
from vibe_llms.runs.surveying import STATES, read_summary

MORNING = datetime(2026, 11, 23, 8, tzinfo=UTC)
REQUESTED = RunRequestedEvent(spec={"model": "scripted:echo", "attached": True}, subject="alice")
STARTED = RunStartedEvent(run_id="r", conversation_id="a", length=1, model="scripted:weather")
SUSPENDED = RunSuspendedEvent(run_id="r", digests=("d",))
ASKED = ApprovalRequestedEvent(key="k", invocation_id="i", name="send", arguments="{}", digest="d")
ANSWERED = ApprovalAnsweredEvent(key="k", name="send", digest="d", decision="allow")
MESSAGE = MessageReceivedEvent(canister=UserCanister("Hello"))
STOP = StopRequestedEvent(reason="Too dear.")
FLOW = FlowStartedEvent(
    run_id="a",
    task={"goal": {"description": "Tides"}, "resource_llm": {"provider": "mock", "model": "x"}},
)
FLOW_WAITS = FlowEndedEvent(run_id="a", reason="waiting")
SPENT = GenerationFinishedEvent(
    key="g",
    turn=1,
    model="scripted:weather",
    provider="scripted",
    canisters=1,
    stop_reason=StopReason.ANSWERED,
    usage=Usage(input_tokens=3, output_tokens=4),
    cents=0.5,
)
CALLED = InvocationStartedEvent(
    key="k", invocation_id="i", name="send", arguments="{}", effect="once", idempotency_key="k"
)
VISIT = NodeStartedEvent(node="P1", visit=1, conversation_id="visit")
VISITED = NodeFinishedEvent(
    node="P1", visit=1, requests=2, usage=Usage(output_tokens=10), cost_cents=1.5
)


def end(reason: Any, **fields: Any) -> RunEndedEvent:
    return RunEndedEvent(run_id="r", reason=reason, **fields)


def log(events: Sequence[LogEvent | tuple[str, LogEvent]]) -> list[LoggedEvent]:
    """Numbers events, a second apart; of the run ``r``, where they do not say of which."""
    pairs = [each if isinstance(each, tuple) else ("r", each) for each in events]
    return [
        LoggedEvent(
            sequence=number,
            timestamp=MORNING + timedelta(seconds=number),
            run_id=run_id,
            event=event,
        )
        for number, (run_id, event) in enumerate(pairs, 1)
    ]


def fold(*events: LogEvent | tuple[str, LogEvent]) -> RunSummary:
    return summarize(log(events), "a")


STEPS: Any = [
    ([REQUESTED], "queued"),
    ([REQUESTED, MESSAGE], "queued"),
    ([STARTED], "working"),
    ([FLOW], "working"),
    ([STARTED, MESSAGE], "working"),
    ([STARTED, ASKED, SUSPENDED], "waiting"),
    ([STARTED, ASKED, SUSPENDED, MESSAGE], "waiting"),
    ([FLOW, FLOW_WAITS], "waiting"),
    ([STARTED, ASKED, SUSPENDED, ANSWERED], "due"),
    ([STARTED, ASKED, SUSPENDED, RunResumedEvent()], "due"),
    ([STARTED, end("answered"), MESSAGE], "due"),
    ([STARTED, end("limit"), RunResumedEvent()], "due"),
    (
        [
            REQUESTED,
            STARTED,
            end("failed"),
            RunRetriedEvent(detail="no", attempt=1, seconds=1.0),
        ],
        "due",
    ),
    ([REQUESTED, STOP], "stopped"),
    ([STARTED, STOP], "stopped"),
    ([STARTED, STOP, end("cancelled")], "stopped"),
    (
        [STARTED, STOP, end("cancelled"), RunRetriedEvent(detail="no", attempt=1, seconds=1.0)],
        "stopped",
    ),
    ([STARTED, ASKED, SUSPENDED, STOP], "stopped"),
    ([STARTED, ASKED, SUSPENDED, STOP, ANSWERED], "stopped"),
    ([STARTED, STOP, end("cancelled"), MESSAGE], "due"),
    ([STARTED, STOP, end("cancelled"), RunResumedEvent()], "due"),
    ([STARTED, STOP, end("answered")], "ended"),
    ([STARTED, end("answered"), STOP], "ended"),
    ([STARTED, end("cancelled"), STOP], "stopped"),
    ([STARTED, end("cancelled")], "ended"),
    ([REQUESTED, STARTED, end("cancelled")], "due"),
    ([FLOW, FlowEndedEvent(run_id="a", reason="cancelled")], "ended"),
    ([REQUESTED, FLOW, FlowEndedEvent(run_id="a", reason="cancelled")], "due"),
    ([FLOW, STOP, FlowEndedEvent(run_id="a", reason="cancelled")], "stopped"),
    ([FLOW, FlowEndedEvent(run_id="a", reason="limit")], "ended"),
    # Said twice, or taken back, while it works.
    ([REQUESTED, STARTED, REQUESTED], "working"),
    ([REQUESTED, STARTED, REQUESTED, end("answered")], "queued"),
    ([STARTED, STOP, RunResumedEvent()], "working"),
    ([STARTED, STOP, RunResumedEvent(), end("cancelled")], "due"),
    # A stop that was heard by the run which took it out of the inbox, before it began.
    ([REQUESTED, ("r2", STOP), ("r2", STARTED)], "stopped"),
    ([REQUESTED, ("r2", STOP), ("r2", STARTED), ("r2", end("cancelled"))], "stopped"),
    # Somebody runs it in spite of an earlier stop.
    ([STARTED, STOP, end("cancelled"), ("r2", STARTED)], "working"),
    ([STARTED, STOP, end("cancelled"), STARTED], "working"),
    # What it was asked for once was seen to.
    ([STARTED, SUSPENDED, end("answered")], "ended"),
]


@pytest.mark.parametrize(
    ("ending", "label", "tone"),
    [
        (RunEndedEvent(run_id="r", reason="answered"), "answered", "ended"),
        (RunEndedEvent(run_id="r", reason="failed"), "failed", "failed"),
        (
            RunEndedEvent(run_id="r", reason="limited", limit="run_steps"),
            "limit reached: run_steps",
            "failed",
        ),
        (FlowEndedEvent(run_id="a", reason="ended", goal_met=True), "goal met", "ended"),
        (FlowEndedEvent(run_id="a", reason="ended", goal_met=False), "goal not met", "failed"),
        (FlowEndedEvent(run_id="a", reason="ended"), "ended", "ended"),
        (FlowEndedEvent(run_id="a", reason="failed", goal_met=False), "failed", "failed"),
    ],
)
def test_how_a_run_has_ended_has_one_label(ending: LogEvent, label: str, tone: str) -> None:
    """The same in all places; what was judged before it went on counts no more."""
    is_flow = isinstance(ending, FlowEndedEvent)
    events = [FLOW, ending] if is_flow else [STARTED, ending]
    summary = fold(*events)

    assert (summary.label, summary.tone) == (label, tone)
    again = fold(*events, *events[:1])
    assert (again.label, again.tone, again.goal_met) == ("working", "working", None)
    assert attrs.evolve(summary, state="waiting", waiting=2).label == "waiting for 2 approvals"
    told = msgspec.json.decode(msgspec.json.encode(summary))
    assert (told["label"], told["tone"]) == (label, tone)
    del told["label"], told["tone"]  # an older daemon does not tell them
    assert msgspec.convert(told, RunSummary) == summary


def test_visits_are_counted_as_everywhere() -> None:
    """Each once, however often it was begun; and those that are over at once."""
    events = [
        FLOW,
        NodeFinishedEvent(node="START", visit=1, edges=(0,)),
        NodeStartedEvent(node="P0", visit=1, conversation_id="v"),
        NodeStartedEvent(node="P0", visit=1, conversation_id="w", purpose="category"),
        FlowEndedEvent(run_id="a", reason="cancelled"),
        FLOW,
        NodeStartedEvent(node="P0", visit=1, conversation_id="v"),
        NodeFinishedEvent(node="P0", visit=1, edges=(1,), requests=2),
        NodeStartedEvent(node="P0", visit=2, conversation_id="x"),
    ]
    logged = [
        LoggedEvent(sequence=number, timestamp=MORNING, run_id="a", event=event)
        for number, event in enumerate(events, 1)
    ]

    assert summarize(logged).visits == len(Course.read(logged).visits) == 3


@pytest.mark.parametrize(("events", "state"), STEPS)
def test_000_each_event_leaves_a_run_where_the_table_says(events: Any, state: str) -> None:
    """The table of the design."""
    assert fold(*events).state == state


def test_001_each_state_is_reached() -> None:
    """By the events above, but for what no log says: whether the process is still there."""
    assert {state for _, state in STEPS} == {*STATES} - {"broken_off"}


def test_002_it_says_who_wanted_what_and_when() -> None:
    """And how long it has been begun without coming to rest."""
    summary = fold(REQUESTED, STARTED, STARTED)

    assert (summary.subject, summary.model, summary.kind) == (
        "alice",
        "scripted:weather",
        "conversation",
    )
    assert summary.spec == REQUESTED.spec
    assert (summary.created, summary.updated) == (
        MORNING + timedelta(seconds=1),
        MORNING + timedelta(seconds=3),
    )
    assert (summary.sequence, summary.starts) == (3, 2)
    assert fold(REQUESTED, STARTED, end("answered")).starts == 0
    assert summary.is_attached
    assert fold(REQUESTED, RunDetachedEvent()).is_attached is False
    flow = fold(FLOW)
    assert (flow.kind, flow.model, flow.name) == ("flow", "mock:x", "Tides")


def test_003_why_it_rests_is_told() -> None:
    """As long as it does."""
    ended = fold(STARTED, end("limit", limit="run_steps", detail="Enough."))

    assert (ended.reason, ended.limit, ended.detail) == ("limit", "run_steps", "Enough.")
    assert fold(STARTED, STOP).detail == "Too dear."
    assert fold(STARTED, STOP, end("cancelled")).detail == "Too dear."
    assert (
        fold(STARTED, RunRetriedEvent(detail="No gateway.", attempt=1, seconds=1.0)).detail
        == "No gateway."
    )
    again = fold(STARTED, end("failed", detail="No."), RunResumedEvent(), STARTED)
    assert (again.reason, again.detail) == ("", "")


def test_004_what_was_used_adds_up_since_it_was_last_asked_for() -> None:
    """Over all that were begun meanwhile; a flow's visits count when they are over."""
    twice = fold(REQUESTED, STARTED, SPENT, CALLED, STARTED, SPENT)

    assert (twice.answers, twice.invocations, twice.tokens, twice.cents) == (2, 1, 14, 1.0)
    anew = fold(STARTED, SPENT, end("limit"), RunResumedEvent(), STARTED, SPENT)
    assert (anew.answers, anew.tokens, anew.cents) == (1, 7, 0.5)
    assert fold(STARTED).cents is None
    cut_off = FlowEndedEvent(
        run_id="a", reason="limit", requests=1, cost_cents=1.0, usage=Usage(output_tokens=5)
    )
    flow = fold(FLOW, VISIT, VISITED, cut_off)
    assert (flow.answers, flow.tokens, flow.cents) == (3, 15, 2.5)
    assert fold(FLOW, VISIT, VISITED, VISIT, VISITED).answers == 4
    assert fold(STARTED, CALLED, CALLED).invocations == 2
    # Who takes it up counts anew what was cut off.
    assert fold(FLOW, VISIT, VISITED, cut_off, FLOW).answers == 2


def test_both_names_of_the_answers_have_their_number() -> None:
    """Older programs read ``steps``, and older daemons send it."""
    encoded = msgspec.json.decode(msgspec.json.encode(fold(STARTED, SPENT)))
    assert (encoded["answers"], encoded["steps"]) == (1, 1)

    del encoded["answers"]
    older = msgspec.convert(encoded, RunSummary)

    assert (older.answers, older.steps) == (1, 1)


def test_015_what_is_ordered_names_it_until_it_says_more() -> None:
    """A flow is told by its order; its task says what the order left open."""

    def tell(*events: LogEvent) -> tuple[str, str, str]:
        summary = fold(*events)
        return summary.kind, summary.model, summary.name

    ordered = RunRequestedEvent(spec={"model": "m:n", "name": "Tides", "kind": "flow"})
    begun = FlowStartedEvent(run_id="a")
    assert tell(ordered) == tell(ordered, RunRequestedEvent(spec={})) == ("flow", "m:n", "Tides")
    assert not fold(ordered).is_attached
    assert tell(ordered, begun) == ("flow", "m:n", "Tides")
    assert tell(ordered, FLOW) == ("flow", "mock:x", "Tides")
    settled = attrs.evolve(FLOW, settings={"model": "o:p"})
    assert tell(ordered, settled) == ("flow", "o:p", "Tides")
    assert tell(RunRequestedEvent(spec={"task": {}})) == ("flow", "", "")
    assert tell(RunRequestedEvent(spec={"kind": "other"})) == ("conversation", "", "")
    assert tell(REQUESTED, attrs.evolve(STARTED, model="")) == ("conversation", "scripted:echo", "")
    for task, model in (
        ({"goal": "x", "resource_llm": "y"}, ""),
        ({"goal": {}, "resource_llm": {"provider": "p"}}, "p"),
        ({"goal": {"description": None}, "resource_llm": {"model": "m", "provider": None}}, "m"),
    ):
        assert tell(attrs.evolve(begun, task=task)) == ("flow", model, "")


def test_016_what_it_waits_for_and_why_it_stopped_is_told() -> None:
    """A request that is deferred waits for a vendor, and no longer when it is answered."""
    deferred = GenerationDeferredEvent(key="g", turn=1, model="m", backend="d")
    asleep = RunSuspendedEvent(run_id="r", digests=())
    waiting = fold(STARTED, deferred, asleep)
    assert (waiting.state, waiting.reason, waiting.limit) == ("waiting", "", "")
    assert "batch" in waiting.detail
    answered = fold(STARTED, deferred, asleep, GenerationAnsweredEvent(key="g", fate="answered"))
    assert (answered.state, answered.detail) == ("due", "")
    assert (answered.reason, answered.limit) == ("", "")
    failed = RunRetriedEvent(detail="No gateway.", attempt=1, seconds=1.0)
    retried = fold(STARTED, end("limit", limit="run_steps"), failed)
    assert (retried.reason, retried.detail, retried.limit) == ("", "No gateway.", "")
    assert fold(STARTED, deferred, asleep, STARTED, ASKED, SUSPENDED).detail == ""
    assert fold(STARTED, STOP, end("cancelled", detail="Now.")).detail == "Now."
    stopped = fold(STARTED, STOP)
    assert (stopped.reason, stopped.detail, stopped.limit) == ("", "Too dear.", "")
    retried = fold(STARTED, STOP, RunRetriedEvent(detail="no", attempt=1, seconds=1.0))
    assert (retried.state, retried.detail, retried.reason) == ("stopped", "Too dear.", "")
    cancelled = fold(STARTED, end("cancelled", detail="Gone."))
    assert (cancelled.reason, cancelled.detail) == ("cancelled", "Gone.")


def test_018_what_held_before_it_went_on_is_told_no_more() -> None:
    """Neither why it ended, nor which limit it had reached."""
    limited = end("limit", limit="run_steps", detail="Enough.")
    for events in (
        [STARTED, limited, RunResumedEvent()],
        [STARTED, limited, STARTED],
        [REQUESTED, STARTED, REQUESTED, limited],
        [STARTED, limited, REQUESTED],
    ):
        summary = fold(*events)
        assert (summary.reason, summary.detail, summary.limit) == ("", "", ""), events
    stopped = fold(STARTED, limited, STARTED, STOP, end("cancelled"))
    assert (stopped.reason, stopped.detail, stopped.limit) == ("", "Too dear.", "")
    assert fold(STARTED).subject == ""
    assert summarize(log([STARTED])).id == ""


def test_017_visits_that_are_not_over_are_known_by_branch_and_purpose() -> None:
    other = attrs.evolve(VISIT, purpose="judge", conversation_id="judged")
    branch = attrs.evolve(VISIT, branch=1, conversation_id="branch")
    for events, visits in (
        ([FLOW], ()),
        ([VISIT, other, branch], ("visit", "judged", "branch")),
        ([VISIT, other, branch, VISITED], ("branch",)),
        ([VISITED, VISIT], ("visit",)),
    ):
        flow = RunFold("a")
        for each in log(events):
            flow.feed(each)
        assert flow.visits == visits


def test_005_nothing_is_no_run() -> None:
    """There is nothing to say of it."""
    with pytest.raises(ValueError, match="at least one event"):
        summarize([])


ANY_EVENT = st.sampled_from(
    [
        REQUESTED,
        STARTED,
        SUSPENDED,
        ASKED,
        ANSWERED,
        attrs.evolve(ANSWERED, scope="always"),
        MESSAGE,
        STOP,
        RunResumedEvent(),
        RunDetachedEvent(),
        RunRetriedEvent(detail="no", attempt=1, seconds=1.0),
        FLOW,
        FLOW_WAITS,
        SPENT,
        CALLED,
        VISIT,
        VISITED,
        *(end(reason) for reason in ("answered", "limit", "cancelled", "refused", "failed")),
    ]
)
ANY_LOG = st.lists(st.tuples(st.sampled_from(["r", "s"]), ANY_EVENT), min_size=1, max_size=20)


@given(ANY_LOG, st.data())
def test_006_a_log_that_is_read_in_pieces_says_the_same(
    events: list[tuple[str, LogEvent]], data: st.DataObject
) -> None:
    """To ask on the way changes nothing; and what waits is what the log says is open."""
    logged, fed = log(events), RunFold("a")
    for each in logged:
        fed.feed(each)
        if data.draw(st.booleans()):
            assert fed.summarize() == summarize(logged[: each.sequence], "a")

    assert fed.summarize() == summarize(logged, "a")
    assert fed.summarize().waiting == len(survey_open(event for _, event in events))
    assert fed.summarize().state in STATES


@given(ANY_LOG)
def test_007_what_the_last_event_excludes_the_log_does(
    events: list[tuple[str, LogEvent]],
) -> None:
    """A survey for one state finds the run, and one for all others does not."""
    store = MemoryStore()
    write(store, "a", events)
    state = read_summary(store, "a").state

    for wanted in STATES:
        assert [each.id for each in survey_runs(store, states=[wanted])] == (
            ["a"] if wanted == state else []
        )


def write(
    store: ConversationStore,
    identity: str,
    events: Sequence[LogEvent | tuple[str, LogEvent]],
    **metadata: Any,
) -> None:
    """Lets a run happen."""
    store.create(identity, ConversationMetadata(**metadata))
    kept = store.open_log(identity)
    kept.claim()
    for each in log(events):
        kept.append(each.run_id, each.event)
    kept.close()


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """A store of either kind."""
    return DirectoryStore(tmp_path) if request.param == "files" else MemoryStore()


def test_008_the_runs_of_a_store_are_found_newest_first(store: ConversationStore) -> None:
    """Conversations that never ran are none, nor, unless they are asked for, parts of others."""
    store.create("silent", ConversationMetadata())
    write(store, "done", [STARTED, end("answered")], name="Old", model="m:x")
    write(store, "part", [STARTED], tags=(PART_TAG + "done",))
    write(store, "busy", [REQUESTED, STARTED])

    assert [each.id for each in survey_runs(store)] == ["busy", "done"]
    assert [each.id for each in survey_runs(store, parts=True)] == ["busy", "part", "done"]
    assert [each.id for each in survey_runs(store, states=["ended"])] == ["done"]
    assert read_summary(store, "done").name == "Old"
    with pytest.raises(StoreError, match="without a run"):
        read_summary(store, "silent")
    with pytest.raises(UnknownConversationError):
        read_summary(store, "nowhere")


def test_009_a_flow_waits_for_what_its_visits_ask(store: ConversationStore) -> None:
    """In their own conversations; and is due when one of these is."""
    write(store, "flow", [FLOW, VISIT, FLOW_WAITS])
    write(store, "visit", [STARTED, ASKED, SUSPENDED], tags=(PART_TAG + "flow",))

    summary = read_summary(store, "flow")
    assert (summary.state, summary.waiting) == ("waiting", 1)

    kept = store.open_log("visit")
    kept.claim()
    kept.append("r", ANSWERED)
    kept.close()

    summary = read_summary(store, "flow")
    assert (summary.state, summary.waiting) == ("due", 0)
    assert [each.id for each in survey_runs(store, states=["due"])] == ["flow"]


def test_010_a_fork_says_of_what(store: ConversationStore) -> None:
    """As the conversation knows."""
    write(store, "a", [STARTED, end("answered")])
    child = store.fork("a", child="b")
    kept = store.open_log(child)
    kept.claim()
    kept.append("r", STARTED)
    kept.close()

    assert read_summary(store, "b").origin == "a"
    assert read_summary(store, "a").origin == ""


def test_011_a_damaged_log_is_passed_over(tmp_path: Path) -> None:
    """The others are told of all the same."""
    store = DirectoryStore(tmp_path)
    write(store, "a", [STARTED])
    write(store, "b", [STARTED])
    path = Path(store.locate("a")) / "runs.jsonl"
    path.write_bytes(b"nonsense\n")

    assert [each.id for each in survey_runs(store)] == ["b"]
