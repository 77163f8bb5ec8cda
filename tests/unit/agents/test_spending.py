"""What a run has used of its time: by a clock that nobody sets, and of those who performed it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs import file_log, memory_log
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.events.engine import RunEndedEvent, RunStartedEvent, StateEnteredEvent
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import MessageReceivedEvent, RunRequestedEvent
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.identities import Moments
from vibe_llms.runs import RunLog
from vibe_llms.runs.spending import measure_usage

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BEGUN = RunStartedEvent(run_id="run", conversation_id="a", length=1)
WORKING = StateEnteredEvent(state="generate", turn=0)
ENDED = RunEndedEvent(run_id="run", reason="answered")
SAID = MessageReceivedEvent(canister=UserCanister("Go on."), message_id="l")


def write(*events: tuple[float, LogEvent]) -> list[LoggedEvent]:
    """Writes events, each some seconds after noon."""
    return [
        LoggedEvent(
            sequence=number, timestamp=NOON + timedelta(seconds=at), run_id="run", event=event
        )
        for number, (at, event) in enumerate(events, 1)
    ]


def test_what_counts_is_from_each_beginning_to_each_end() -> None:
    """What lies between two attempts is nobody's; of one that was killed its last word counts."""
    log = write((0, RunRequestedEvent(spec={})), (5, BEGUN), (7, WORKING))
    assert measure_usage(log).seconds == 0  # it goes on, or nobody knows yet
    log = write((5, BEGUN), (7, WORKING), (100, BEGUN), (101, WORKING), (103, ENDED))
    assert measure_usage(log).seconds == 2 + 3


def test_what_others_wrote_to_one_that_was_killed_is_none_of_its_time() -> None:
    """Else whoever is spoken to a day after a crash would be at its limit."""
    log = write((0, BEGUN), (2, WORKING), (86_400, SAID), (86_401, BEGUN), (86_402, ENDED))
    assert measure_usage(log).seconds == 2 + 1


def produce_file_log(folder: Path) -> RunLog:
    store = DirectoryStore(folder)
    store.create("a", ConversationMetadata())
    return store.open_log("a")


@pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)])
@pytest.mark.parametrize(
    ("home", "produce"), [(file_log, produce_file_log), (memory_log, lambda _: MemoryLog())]
)
def test_a_clock_that_jumps_takes_no_time_of_a_run_and_gives_it_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jump: timedelta,
    home: object,
    produce: Callable[[Path], RunLog],
) -> None:
    """The moments of one writer are apart by what has passed; the next one asks the clock again."""
    wall, steady = NOON, 50.0
    moments = partial(Moments, now=lambda: wall, read=lambda: steady)
    monkeypatch.setattr(home, "Moments", moments)
    log = produce(tmp_path)
    log.claim()
    log.append("run", BEGUN)
    wall, steady = NOON + jump, 53.0
    log.append("run", WORKING)
    log.append("run", ENDED)
    log.close()
    log.claim()
    log.append("run", BEGUN)
    log.close()
    begun, _, ended, again = log.read()
    assert measure_usage([*log.read()]).seconds == 3
    assert (begun.timestamp, ended.timestamp) == (NOON, NOON + timedelta(seconds=3))
    assert again.timestamp == NOON + jump
