"""Claims on logs in a database: leases that their process renews.

A claim has an epoch, which increases with each claim of the log. Each write checks the epoch, so
that a process that was paused or cut off for longer than its lease cannot write once another
process has claimed the log.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import StoreError

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.postgresql.database import Database

LEASE_SECONDS: Final = 15.0
"""Duration of a lease, for claims and for workers' heartbeats.

A lease is renewed whenever a third of this time has passed. If the process of a run dies, another
process can continue the run after this time.
"""

_RENEW = """
UPDATE vibe_claims SET until = clock_timestamp() + make_interval(secs => %s)
FROM unnest(%s::text[], %s::bigint[]) AS mine (conversation, epoch)
WHERE vibe_claims.conversation = mine.conversation AND vibe_claims.epoch = mine.epoch
"""
_renewers: weakref.WeakKeyDictionary[Database, ClaimRenewer] = weakref.WeakKeyDictionary()
_renewers_lock = threading.Lock()


def access_renewer(database: Database) -> ClaimRenewer:
    """Return the renewer of this process's claims in a database."""
    with _renewers_lock:
        if database not in _renewers:
            _renewers[database] = ClaimRenewer()
        return _renewers[database]


class ClaimRenewer:
    """Thread that renews claims while any exist."""

    def __init__(self) -> None:
        self._claims: dict[str, int] = {}
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, database: Database, identity: str, epoch: int) -> None:
        """Start to renew a claim."""
        with self._change:
            self._claims[identity] = epoch
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._renew, args=(database,), name="vibe-claims", daemon=True
                )
                self._thread.start()

    def remove(self, identity: str) -> None:
        """Stop renewing a claim."""
        with self._change:
            self._claims.pop(identity, None)
            self._change.notify_all()

    def _renew(self, database: Database) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: not self._claims, timeout=LEASE_SECONDS / 3)
                if not self._claims:
                    self._thread = None
                    return
                claims = dict(self._claims)
            row: tuple[Any, ...] = (LEASE_SECONDS, [*claims], [*claims.values()])
            try:
                with database.transact() as connection:
                    connection.execute(_RENEW, row)
            except StoreError:  # unreachable: tried again soon; writers get the error
                continue
