"""What became of a run that raised is in its log, unless somebody was faster to end it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from support.stores.postgresql_server import produce_url
from vibe_llms.agents import outcomes
from vibe_llms.agents.outcomes import write_outcome
from vibe_llms.conversations import ConversationStore, DirectoryStore, MemoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log import LoggedEvent, RunLog, claim_soon
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.events.engine import RunEndedEvent, RunStartedEvent, RunSuspendedEvent
from vibe_llms.events.flow import FlowEndedEvent, LogEvent
from vibe_llms.events.runs import RunResumedEvent, RunRetriedEvent
from vibe_llms.exceptions import ConverseError, StoreError, TransportError

BEGUN = RunStartedEvent(run_id="r", conversation_id="c", length=1)
ANSWERED = RunEndedEvent(run_id="other", reason="answered")
FAILED = RunEndedEvent(run_id="r", reason="failed", detail="It cannot be begun.")
RETRIED = RunRetriedEvent(detail="Nobody is there.", attempt=1, seconds=1.0)
OUT_OF_REACH = FlowEndedEvent(run_id="c", reason="failed", error=TransportError(detail="No."))


@pytest.fixture(
    params=["memory", "directory", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ConversationStore]:
    """A store with a run that somebody has begun."""
    made: ConversationStore
    if request.param == "postgresql":
        made = PostgresqlStore(produce_url(tmp_path))
    else:
        made = MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path / "store")
    made.create("c", ConversationMetadata())
    write(made, BEGUN)
    yield made
    if isinstance(made, PostgresqlStore):
        made.database.close()


def write(store: ConversationStore, *events: LogEvent) -> None:
    """Adds events to the log, as another host."""
    log = store.open_log("c")
    log.claim()
    log.append("other", *events)
    log.close()


def read(store: ConversationStore) -> Sequence[LoggedEvent]:
    return store.open_log("c").read()


def say(outcome: LogEvent) -> Callable[[Sequence[LoggedEvent]], LogEvent]:
    return lambda _: outcome


@pytest.mark.parametrize("outcome", [RETRIED, FAILED])
def test_what_another_host_ends_at_the_last_moment_is_not_ended_twice(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch, outcome: LogEvent
) -> None:
    """Nor tried again: between any look that went before and the claim, all may have changed."""

    def claim_late(log: RunLog) -> None:
        write(store, ANSWERED, RunResumedEvent(message_id="more"))  # somebody wants more of it
        claim_soon(log)

    monkeypatch.setattr(outcomes, "claim_soon", claim_late)
    assert write_outcome(store, "c", read(store), say(outcome)) is None
    kinds = [each.event.type for each in read(store)]
    assert kinds == ["run.started", "run.ended", "run.resumed"]


@pytest.mark.parametrize(
    ("since", "outcome", "is_written"),
    [
        ([], RETRIED, True),
        ([], FAILED, True),
        ([ANSWERED], RETRIED, False),
        ([FlowEndedEvent(run_id="c", reason="ended")], FAILED, False),
        ([FlowEndedEvent(run_id="c", reason="ended")], RETRIED, False),
        ([OUT_OF_REACH], RETRIED, True),  # its own word
        ([OUT_OF_REACH], FAILED, False),
        ([OUT_OF_REACH, ANSWERED], RETRIED, False),
        (
            [RunSuspendedEvent(run_id="r", digests=())],
            RETRIED,
            True,
        ),  # what it waits for was not handed over
    ],
)
def test_only_what_is_not_over_is_gone_on_with(
    since: list[LogEvent], outcome: LogEvent, is_written: bool
) -> None:
    store = MemoryStore()
    store.create("c", ConversationMetadata())
    write(store, ANSWERED, BEGUN)  # of before
    known = read(store)
    if since:
        write(store, *since)
    told: list[Sequence[LoggedEvent]] = []

    def choose(log: Sequence[LoggedEvent]) -> LogEvent:
        told.append(log)
        return outcome

    written = write_outcome(store, "c", known, choose)
    assert written == (outcome if is_written else None)
    assert [each.event for each in told[0]] == [ANSWERED, BEGUN, *since]
    assert [each.event for each in read(store)][2:] == [*since, *([outcome] if is_written else [])]


def test_whoever_has_the_log_is_not_written_beside(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "claim_soon", lambda log: claim_soon(log, wait_seconds=0))
    other = store.open_log("c")
    other.claim()
    with pytest.raises(StoreError, match="already active"):
        write_outcome(store, "c", read(store), say(RETRIED))
    other.close()
    assert [each.event for each in read(store)] == [BEGUN]


@pytest.mark.postgresql
def test_a_claim_that_ran_out_between_look_and_write_is_no_claim(tmp_path: Path) -> None:
    """Where a host sleeps just there, another has gone on: its epoch tells, and nothing is said."""
    url = produce_url(tmp_path)
    store = PostgresqlStore(url)
    store.create("c", ConversationMetadata())
    write(store, BEGUN)

    def choose(_: Sequence[LoggedEvent]) -> LogEvent:  # after the look, before what is written
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE vibe_claims SET until = '-infinity'")
        write(store, ANSWERED)
        return RETRIED

    with pytest.raises(ConverseError, match="lost its claim"):
        write_outcome(store, "c", read(store), choose)
    assert [each.event for each in read(store)] == [BEGUN, ANSWERED]
    store.database.close()
