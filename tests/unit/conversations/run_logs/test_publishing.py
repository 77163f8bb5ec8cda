"""Whoever hears the lines of a log hears each, until it is done, and of no other log."""

from __future__ import annotations

from contextlib import suppress

from vibe_llms.conversations.run_logs import publishing
from vibe_llms.conversations.run_logs.log import LogDefaults, LogLine
from vibe_llms.conversations.run_logs.publishing import publish, subscribe
from vibe_llms.events.engine import RunEndedEvent

ENDED = RunEndedEvent(run_id="r", reason="answered")


def test_a_log_publishes_nothing_by_default_and_its_claim_is_never_taken_over() -> None:
    log = LogDefaults()
    assert log.topic is None
    with log.fencing():
        pass


def test_lines_are_heard_by_all_who_hear_at_that_place() -> None:
    heard: list[tuple[str, LogLine]] = []
    publish("a", 1, ENDED, b"one")
    with subscribe("a", lambda line: heard.append(("first", line))):
        publish("a", 2, ENDED, b"two")
        with (
            suppress(InterruptedError),
            subscribe("a", lambda line: heard.append(("second", line))),
        ):
            publish("a", 3, ENDED, b"three")
            publish("b", 3, ENDED, b"elsewhere")
            raise InterruptedError
        publish("a", 4, ENDED, b"four")
    publish("a", 5, ENDED, b"five")

    two, three, four = (
        LogLine(number, "run.ended", data)
        for number, data in ((2, b"two"), (3, b"three"), (4, b"four"))
    )
    assert heard == [("first", two), ("first", three), ("second", three), ("first", four)]
    assert "a" not in publishing._subscribers
