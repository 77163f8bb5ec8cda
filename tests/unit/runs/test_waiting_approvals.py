"""Approvals that come from another process, for a run that nobody could approve for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
import pytest

from vibe_llms.conversations import ConversationStore, DirectoryStore, MemoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.engine.approving import produce_answer
from vibe_llms.engine.recovery import Record
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    EngineEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.exceptions import CorruptionError, RequestError, Stage, UnknownNameError
from vibe_llms.invocables.approvals import (
    Approval,
    ApprovalRequest,
    Decision,
    Scope,
    allow,
    deny,
    edit,
    produce_approval_request,
)
from vibe_llms.runs import answer, survey_waiting, waiting
from vibe_llms.runs.delivering import deliver

SEND = produce_approval_request(
    "call_1", "send", {"to": "a"}, description="Sends.", effect="idempotent"
)
WRITE = produce_approval_request("call_2", "write", {"text": "ü"})
SUSPENDED = RunSuspendedEvent(run_id="run", digests=(SEND.digest, WRITE.digest))


def request(key: str, asked: ApprovalRequest) -> ApprovalRequestedEvent:
    """Returns the event by which a run asks."""
    return ApprovalRequestedEvent(key=key, **attrs.asdict(asked))


def begin(key: str, asked: ApprovalRequest) -> InvocationStartedEvent:
    return InvocationStartedEvent(
        key=key,
        invocation_id=asked.invocation_id,
        name=asked.name,
        arguments=asked.arguments,
        effect="once",
        idempotency_key=key,
    )


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """A store of either kind, with the conversations ``a`` and ``b``."""
    store = DirectoryStore(tmp_path) if request.param == "files" else MemoryStore()
    for identity in ("a", "b"):
        store.create(identity, ConversationMetadata())
    return store


def write(
    store: ConversationStore, identity: str, events: Sequence[EngineEvent], run_id: str = "run"
) -> None:
    """Lets a run happen."""
    log = store.open_log(identity)
    log.claim()
    begun = RunStartedEvent(run_id=run_id, conversation_id=identity, length=1)
    for event in (begun, *events):
        log.append(run_id, event)
    log.close()


def survey_events(store: ConversationStore) -> list[EngineEvent]:
    return [each.event for each in store.open_log("a").read()]


def test_000_what_waits_is_listed_with_what_is_asked(store: ConversationStore) -> None:
    """For all conversations, oldest first, or for one."""
    write(store, "a", [request("k1", SEND), request("k2", WRITE), SUSPENDED])
    write(store, "b", [request("k3", SEND), SUSPENDED], "other")

    waiting = survey_waiting(store)

    assert [(each.conversation_id, each.key, each.run_id) for each in waiting] == [
        ("a", "k1", "run"),
        ("a", "k2", "run"),
        ("b", "k3", "other"),
    ]
    assert [each.request for each in waiting] == [SEND, WRITE, SEND]
    moments = {
        each.event.key: each.timestamp
        for identity in ("a", "b")
        for each in store.open_log(identity).read()
        if isinstance(each.event, ApprovalRequestedEvent)
    }
    assert {each.key: each.timestamp for each in waiting} == moments
    assert survey_waiting(store, "b") == waiting[2:]


@pytest.mark.parametrize(
    ("approval", "decision", "arguments"),
    [
        (allow(SEND), "allow", None),
        (deny(SEND, "No."), "deny", None),
        (edit(SEND, {"to": "b"}, "Rather b."), "edit", '{"to":"b"}'),
    ],
)
def test_001_an_answer_is_written_to_the_log_where_the_run_finds_it(
    store: ConversationStore, approval: Approval, decision: str, arguments: str | None
) -> None:
    """It settles the call that was asked about, and that waits no longer."""
    write(store, "a", [request("k1", SEND), request("k2", WRITE), SUSPENDED])

    answered = answer(store, "a", approval)

    assert (answered.conversation_id, answered.key, answered.request) == ("a", "k1", SEND)
    assert [each.key for each in survey_waiting(store)] == ["k2"]
    last = store.open_log("a").read_last()
    assert last is not None
    assert last.run_id == "run"
    event = last.event
    assert isinstance(event, ApprovalAnsweredEvent)
    assert (event.decision, event.arguments, event.reason) == (
        decision,
        arguments,
        approval.reason,
    )
    assert event.message_id
    assert event.subject == ""
    record = Record.read(survey_events(store))
    assert record.find_approval("k1", SEND.digest, "send", in_doubt=False) == event


def test_002_an_answer_that_reaches_further_settles_more(store: ConversationStore) -> None:
    """Always: every waiting call of that name; but no call that may have taken effect."""
    other = produce_approval_request("call_3", "send", {"to": "b"})
    doubted = produce_approval_request("call_4", "send", {"to": "c"}, in_doubt=True)
    asked = [request("k1", SEND), request("k3", other), request("k4", doubted)]
    write(store, "a", [*asked, SUSPENDED])

    answer(store, "a", allow(SEND, scope=Scope.ALWAYS), subject="ann")

    assert [each.request for each in survey_waiting(store)] == [doubted]
    last = store.open_log("a").read_last()
    assert last is not None
    assert isinstance(last.event, ApprovalAnsweredEvent)
    assert last.event.subject == "ann"


def test_003_of_identical_calls_each_is_answered(store: ConversationStore) -> None:
    """One answer is for one call: the one that is named, or the first."""
    again = attrs.evolve(SEND, invocation_id="call_9")
    asked = [request("k1", SEND), request("k2", again), request("k3", again)]
    write(store, "a", [*asked, SUSPENDED])

    assert answer(store, "a", allow(SEND), key="k2").key == "k2"
    assert answer(store, "a", allow(SEND)).key == "k1"
    assert answer(store, "a", allow(SEND)).key == "k3"
    assert survey_waiting(store) == ()


def test_010_an_answer_to_what_nobody_asks_is_refused(store: ConversationStore) -> None:
    """Neither a call of another digest, nor one that is settled; nothing is written."""
    write(store, "a", [request("k1", SEND), SUSPENDED])
    before = survey_events(store)

    for approval, key in ((allow(WRITE), None), (allow(SEND), "k2")):
        with pytest.raises(UnknownNameError, match=SEND.digest) as raised:
            answer(store, "a", approval, key=key)
        assert raised.value.name == approval.digest + (f" ({key})" if key else "")
        assert raised.value.known == (SEND.digest + (" (k1)" if key else ""),)
        assert raised.value.remedy == ""
        assert (raised.value.kind, raised.value.stage) == ("waiting call", Stage.EXECUTE)

    assert survey_events(store) == before
    answer(store, "a", allow(SEND))
    with pytest.raises(UnknownNameError, match="answered already"):
        answer(store, "a", deny(SEND))


def test_011_an_edit_without_an_object_is_refused(store: ConversationStore) -> None:
    """The run would fail of it; the call goes on waiting."""
    write(store, "a", [request("k1", SEND), SUSPENDED])
    nonsense = Approval(digest=SEND.digest, decision=Decision.EDIT, arguments="[1]")

    with pytest.raises(RequestError, match="must be an object, not list"):
        answer(store, "a", nonsense)

    assert len(survey_waiting(store)) == 1


def test_012_who_answers_while_the_run_goes_on_is_heard_when_it_rests(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run may have an approver of its own; of two answers from outside the first counts."""
    monkeypatch.setattr(waiting, "deliver", partial(deliver, wait_seconds=0.01))
    write(store, "a", [request("k1", SEND), SUSPENDED])
    log = store.open_log("a")
    log.claim()

    answer(store, "a", allow(SEND), subject="first")
    assert survey_waiting(store, "a")  # nobody has seen the answer yet
    answer(store, "a", allow(SEND), subject="second")

    log.close()
    assert deliver(store, "a")
    assert deliver(store, "a")
    told = [each.event for each in log.read()][-2:]
    assert [(event.type, event.subject) for event in told] == [
        ("approval.answered", "first"),
        ("approval.refused", "second"),
    ]
    with pytest.raises(UnknownNameError):
        answer(store, "a", allow(SEND))


def test_016_who_is_only_just_too_late_is_told_so(store: ConversationStore) -> None:
    """Another answer lay in the inbox already, and counts."""
    write(store, "a", [request("k1", SEND), SUSPENDED])
    first = produce_answer("k1", SEND, deny(SEND))
    store.open_inbox("a").put(attrs.evolve(first, message_id="first"))

    with pytest.raises(UnknownNameError, match="answered already") as raised:
        answer(store, "a", allow(SEND), key="k1")

    assert raised.value.name == f"{SEND.digest} (k1)"
    told = [each.event for each in store.open_log("a").read()][-2:]
    assert [event.type for event in told] == ["approval.answered", "approval.refused"]
    assert isinstance(told[0], ApprovalAnsweredEvent)
    assert told[0].decision == "deny"


@pytest.mark.parametrize(
    "after",
    [
        begin("k1", SEND),
        RunEndedEvent(run_id="run", reason="cancelled"),
    ],
    ids=lambda event: event.type,
)
def test_013_what_has_begun_or_ended_waits_no_longer(
    store: ConversationStore, after: EngineEvent
) -> None:
    """A run that went on needs no answer any more."""
    write(store, "a", [request("k1", SEND), after])

    assert survey_waiting(store) == survey_waiting(store, "a") == ()


def test_014_a_run_that_was_killed_while_it_asked_can_be_answered(
    store: ConversationStore,
) -> None:
    """It could not say that it is suspended; what it asked is in its log all the same."""
    write(store, "a", [request("k1", SEND)])
    write(store, "a", [], "again")

    assert [each.key for each in survey_waiting(store)] == ["k1"]
    answer(store, "a", allow(SEND))


def test_015_a_damaged_log_does_not_hide_the_others(tmp_path: Path) -> None:
    """Who asks for that very conversation is told of the damage."""
    store = DirectoryStore(tmp_path)
    for identity in ("a", "b"):
        store.create(identity, ConversationMetadata())
        write(store, identity, [request("k1", SEND), SUSPENDED])
    Path(store.locate("a"), "runs.jsonl").write_text("nonsense\n")

    assert [each.conversation_id for each in survey_waiting(store)] == ["b"]
    with pytest.raises(CorruptionError, match=r"runs\.jsonl"):
        survey_waiting(store, "a")
