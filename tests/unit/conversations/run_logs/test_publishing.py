"""Whoever hears the lines of a log hears each, until it is done, and of no other log."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from vibe_llms.conversations.run_logs import publishing
from vibe_llms.conversations.run_logs.log import LogLine
from vibe_llms.conversations.run_logs.publishing import find_topic, publish, subscribe
from vibe_llms.events.engine import RunEndedEvent

ENDED = RunEndedEvent(run_id="r", reason="answered")


def test_the_topic_of_a_log_is_what_it_says() -> None:
    told: Any = SimpleNamespace(topic="there")
    silent: Any = SimpleNamespace()
    assert (find_topic(told), find_topic(silent)) == ("there", None)


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
