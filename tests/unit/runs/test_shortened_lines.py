"""What leaves the lines of runs that have ended: states between, and copies of what was said."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from vibe_llms.conversations.run_logs.log_lines import open_envelope, read_envelope, write_line
from vibe_llms.events.engine import (
    ApprovalRequestedEvent,
    GenerationAnsweredEvent,
    GenerationFailedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    StateEnteredEvent,
)
from vibe_llms.events.runs import ApprovalRefusedEvent, RunRetriedEvent
from vibe_llms.exceptions import CorruptionError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from vibe_llms.runs.compacting import shorten

MOMENT = datetime(2025, 1, 1, tzinfo=UTC)
CALL = InvocationCanister(
    id="call", name="f", arguments='{"b": 1, "a": 2}', invocation_id="i", turn_id="t"
)
BROKEN = attrs.evolve(CALL, id="broken", arguments="{")
RESULT = ResultCanister("seen", id="result", invocation_id="i", name="f")
LAST = AssistantCanister("Done.", id="last")
SAID: list[AnyCanister] = [UserCanister("Go.", id="first"), CALL, BROKEN, RESULT, LAST]
ENDED = RunEndedEvent(run_id="run", reason="answered")
BEGUN = InvocationStartedEvent(
    key="call",
    invocation_id="i",
    name="f",
    arguments='{"a":2,"b":1}',
    effect="once",
    idempotency_key="x",
)
ASKED = ApprovalRequestedEvent(
    key="call", invocation_id="i", name="f", arguments='{"a":2,"b":1}', digest="d"
)
FINISHED = InvocationFinishedEvent(key="call", invocation_id="i", name="f", result=RESULT)
ANSWERED = GenerationAnsweredEvent(key="call", fate="answered", body="said")
FAILED = GenerationFailedEvent(key="first", turn=1, model="m", canisters=(CALL, RESULT))


def write(number: int, event: Any, kept: int = 0) -> bytes:
    return write_line(number, MOMENT, "run", event, kept)


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        (BEGUN, attrs.evolve(BEGUN, arguments="")),
        (ASKED, attrs.evolve(ASKED, arguments="")),
        (FINISHED, attrs.evolve(FINISHED, result=attrs.evolve(RESULT, content=()))),
        (ANSWERED, attrs.evolve(ANSWERED, body="")),
        (FAILED, attrs.evolve(FAILED, canisters=(CALL, attrs.evolve(RESULT, content=())))),
    ],
    ids=lambda event: event.type,
)
def test_what_the_conversation_says_too_leaves(event: Any, kept: Any) -> None:
    assert shorten([write(3, event)], SAID) == [write(3, kept)]


@pytest.mark.parametrize(
    "event",
    [
        *(attrs.evolve(BEGUN, arguments='{"a":2,"b":2}', key=key) for key in ("call", "gone")),
        *(attrs.evolve(BEGUN, key=key) for key in ("gone", "first", "broken", "result")),
        attrs.evolve(BEGUN, arguments="{", key="broken"),
        attrs.evolve(BEGUN, arguments=""),
        attrs.evolve(ASKED, arguments='{"a":3}'),
        attrs.evolve(FINISHED, result=attrs.evolve(RESULT, id="gone")),
        attrs.evolve(FINISHED, result=attrs.evolve(RESULT, name="other")),
        attrs.evolve(FINISHED, result=attrs.evolve(RESULT, content=())),
        *(attrs.evolve(ANSWERED, key=key) for key in ("gone", "last")),
        attrs.evolve(FAILED, canisters=(attrs.evolve(LAST, id="gone"), CALL)),
        ENDED,
    ],
)
def test_what_only_the_log_says_stays_as_it_is(event: Any) -> None:
    line = write(3, event)
    assert shorten([line], SAID) == [line]


def test_what_nothing_needs_any_more_leaves() -> None:
    """A mark of an earlier compaction, too: only the last line of what was kept has one."""
    gone = [
        StateEnteredEvent(state="generate", turn=0),
        RunRetriedEvent(detail="full", attempt=1, seconds=1.0),
        ApprovalRefusedEvent(key="call", digest="d"),
    ]
    lines = [write(1, BEGUN), *(write(n, each) for n, each in enumerate(gone, 2)), write(5, ENDED)]
    shorter = shorten([*lines, write(9, ENDED, kept=7)], SAID)

    assert [open_envelope(read_envelope(line)).sequence for line in shorter] == [1, 5, 9]
    assert shorter[1:] == [write(5, ENDED), write(9, ENDED)]
    assert shorten(shorter, SAID) == shorter
    with pytest.raises(CorruptionError, match="Cannot read an event"):
        shorten([lines[0].replace(b"call", b"ca\xffl")], SAID)
    with pytest.raises(CorruptionError, match="Cannot read an event"):
        shorten([lines[0].replace(b'"name"', b'"nome"')], SAID)
