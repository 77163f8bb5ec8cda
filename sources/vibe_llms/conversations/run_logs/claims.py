"""Who has the logs of a database: claims that run out unless their process goes on renewing them.

A claim has an epoch, a number that rises whenever somebody claims, and nothing is written under an
earlier one. So a process that was paused, or cut off, until another took its run over finds that
it has lost it as soon as it writes.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import StoreError

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.postgresql.database import Database

LEASE_SECONDS: Final = 15.0
"""How long a claim holds unless it is renewed: so long a killed process's runs wait for another."""

_RENEW = """
UPDATE vibe_claims SET until = clock_timestamp() + make_interval(secs => %s)
FROM unnest(%s::text[], %s::bigint[]) AS mine (conversation, epoch)
WHERE vibe_claims.conversation = mine.conversation AND vibe_claims.epoch = mine.epoch
"""
_KEEPERS: weakref.WeakKeyDictionary[Database, ClaimRenewer] = weakref.WeakKeyDictionary()
_DOOR = threading.Lock()


def access_keeper(database: Database) -> ClaimRenewer:
    """Returns what renews the claims of this process on a database."""
    with _DOOR:
        if database not in _KEEPERS:
            _KEEPERS[database] = ClaimRenewer()
        return _KEEPERS[database]


class ClaimRenewer:
    """Renews claims in a thread of its own, as long as there are any."""

    def __init__(self) -> None:
        self._claims: dict[str, int] = {}
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, database: Database, identity: str, epoch: int) -> None:
        """Renews a claim from now on."""
        with self._change:
            self._claims[identity] = epoch
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._renew, args=(database,), name="vibe-claims", daemon=True
                )
                self._thread.start()

    def remove(self, identity: str) -> None:
        """Renews a claim no longer."""
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
            except StoreError:  # out of reach: it is tried again, and whoever writes will tell
                continue
