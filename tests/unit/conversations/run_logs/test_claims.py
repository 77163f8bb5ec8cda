"""Claims on the logs of a database hold as long as their process renews them, in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

from vibe_llms.conversations.run_logs.claims import LEASE_SECONDS, ClaimRenewer, access_renewer
from vibe_llms.exceptions import StoreError


class Steps:
    """A condition that is waited for until the test says so; it notes what was asked of it."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.timeouts: list[float | None] = []
        self.results: list[bool] = []
        self.notified = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait_for(self, is_met: Callable[[], bool], timeout: float | None = None) -> bool:
        self.timeouts.append(timeout)
        self._lock.release()
        is_over = self.go.acquire(timeout=60)
        self._lock.acquire()
        assert is_over
        self.results.append(is_met())
        return self.results[-1]

    def notify_all(self) -> None:
        self.notified += 1


class Database:
    """Notes what is written; it may be out of reach."""

    def __init__(self) -> None:
        self.written: Queue[Any] = Queue()
        self.is_lost = False

    @contextmanager
    def transact(self) -> Iterator[Any]:
        if self.is_lost:
            self.written.put("lost")
            raise StoreError(detail="It is out of reach.")
        yield self

    def execute(self, statement: str, row: Any) -> None:
        self.written.put((statement.split()[:2], row))


def test_one_thread_renews_all_claims_three_times_in_a_lease_until_there_are_none() -> None:
    """Also where the database was out of reach for a while; the next claim begins it anew."""
    renewer, steps, database = ClaimRenewer(), Steps(), Database()
    kept: Any = database
    renewer._change = steps  # type: ignore[assignment]

    def step() -> Any:
        steps.go.release()
        return database.written.get(timeout=60)

    renewer.add(kept, "a", 1)
    thread = renewer._thread
    assert thread is not None
    assert (thread.name, thread.daemon) == ("vibe-claims", True)
    assert step() == (["UPDATE", "vibe_claims"], (LEASE_SECONDS, ["a"], [1]))
    renewer.add(kept, "b", 7)
    assert renewer._thread is thread
    assert step()[1] == (LEASE_SECONDS, ["a", "b"], [1, 7])
    renewer.remove("a")
    renewer.remove("nobody")
    assert steps.notified == 2
    database.is_lost = True
    assert step() == "lost"
    database.is_lost = False
    assert step()[1] == (LEASE_SECONDS, ["b"], [7])
    renewer.remove("b")
    steps.go.release()
    thread.join(60)
    assert not thread.is_alive()
    assert database.written.empty()
    assert steps.results == [False, False, False, False, True]

    renewer.add(kept, "c", 2)
    other = renewer._thread
    assert other is not None
    assert other is not thread
    assert step()[1] == (LEASE_SECONDS, ["c"], [2])
    renewer.remove("c")
    steps.go.release()
    other.join(60)
    assert set(steps.timeouts) == {LEASE_SECONDS / 3}


def test_each_database_has_one_that_renews_its_claims() -> None:
    one, other = (Database() for _ in range(2))
    first: Any = one
    second: Any = other
    assert isinstance(access_renewer(first), ClaimRenewer)
    assert access_renewer(first) is access_renewer(first)
    assert access_renewer(first) is not access_renewer(second)
