"""Times of shards' folders, which tell lists that a conversation in them may have changed."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from vibe_llms.logs.disk import Disk

RENEWAL_NS: Final = 5_000_000_000
"""Age up to which a time that this store has set still tells of a new change. A list takes the time
of a folder as final only when it is much older (:data:`.index.refresh.UNCERTAIN_NS`)."""


class ChangeMarks:
    """Sets the times of shards' folders. May be used by several threads.

    A writer marks a conversation before a change, so that a list notices the change even if the
    writer is killed, and again before it acknowledges the change, which costs nothing unless the
    first mark is too old by then.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._times: dict[str, int] = {}  # by folder; there are only as many as shards

    def mark(self, path: str) -> None:
        """Tell lists that a conversation changes, or has changed.

        Args:
            path: Path of one of its files.
        """
        shard = path.rsplit("/", 2)[0]
        now = time.time_ns()
        # The clock may have been set back.
        if 0 <= now - self._times.get(shard, 0) < RENEWAL_NS:
            return
        with suppress(OSError):  # some shared folders refuse it: then the next comparison notices
            self._disk.touch(shard)
        self._times[shard] = now
