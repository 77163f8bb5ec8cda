"""Inboxes in a database: a list of those with messages is shared, and never hides a message."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from vibe_llms.conversations.run_logs.database_inbox import DatabaseInbox
from vibe_llms.events.runs import StopRequestedEvent


class Rows(list[Any]):
    """Result of a statement."""

    def fetchall(self) -> list[Any]:
        return self

    def fetchone(self) -> Any:
        return self[0]


class SlowDatabase:
    """Database of one conversation; another thread puts a message while the list is queried."""

    location = "here"

    def __init__(self) -> None:
        self.names: list[str] = []
        self.queries = 0
        self.meanwhile: Callable[[], object] = lambda: None

    @contextmanager
    def transact(self, *, reading: bool = False) -> Iterator[SlowDatabase]:
        yield self

    def execute(self, statement: str, parameters: Any = ()) -> Rows:
        if statement.startswith("SELECT DISTINCT"):
            self.queries += 1
            found = Rows((name,) for name in self.names)
            meanwhile, self.meanwhile = self.meanwhile, lambda: None
            meanwhile()
            return found
        if statement.startswith("INSERT"):
            self.names.append(parameters[0])
        return Rows([(True, len(self.names))])


def test_a_message_put_during_a_query_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender delivers it at once; an older list would say that nothing is left to deliver."""
    monkeypatch.setattr(time, "monotonic", lambda: 1.0)
    database = SlowDatabase()
    inbox = DatabaseInbox(cast("Any", database), "a")
    database.meanwhile = lambda: inbox.put(StopRequestedEvent(message_id="m"))
    # The first answer is that of the moment at which its query began.
    assert [inbox.is_empty for _ in range(3)] == [True, False, False]
    assert database.queries == 2  # the second list is kept
