"""Modification times of shards' folders, by which the index detects changed conversations."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from vibe_llms.logs.disk import Disk

RENEWAL_NS: Final = 5_000_000_000
"""Age up to which the time of a folder need not be set again for another change.

The index scans a folder again until its time is much older (:data:`.index.refresh.UNCERTAIN_NS`).
"""


class ChangeMarks:
    """Sets the times of shards' folders. May be used by several threads.

    A writer marks a conversation before a change, so that the index detects the change even if the
    writer is killed. It marks it again after the change, which has a cost only if the change took
    long.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._times: dict[str, int] = {}  # by folder; there are only as many as shards

    def mark(self, path: str) -> None:
        """Set the time of the shard of a conversation that changes, or has changed.

        Args:
            path: Path of a file in the folder.
        """
        shard = path.rsplit("/", 2)[0]
        now = time.time_ns()
        # The clock may have been set back.
        if 0 <= now - self._times.get(shard, 0) < RENEWAL_NS:
            return
        # Some shared folders do not allow it; then the daily comparison detects the change.
        with suppress(OSError):
            self._disk.touch(shard)
        self._times[shard] = now
