"""Modification times of shards' folders, which show the index the changed conversations."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from vibe_llms.logs.disk import Disk

RENEWAL_NS: Final = 5_000_000_000
"""Minimum interval between two updates of a folder's modification time.

Changes within the interval are detected nevertheless: the index scans a folder each time until the
folder's time is much older (:data:`.index.refresh.UNCERTAIN_NS`).
"""


class ChangeMarks:
    """Sets the times of shards' folders. May be used by several threads.

    A writer marks a conversation before a change, so that the index detects the change even if the
    writer is killed. It marks the conversation again after the change; this second mark does
    nothing unless the change took longer than :data:`RENEWAL_NS`.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._times: dict[str, int] = {}  # by folder; there are only as many as shards

    def mark(self, path: str) -> None:
        """Set the time of a shard's folder, because a conversation in it changes or has changed.

        Args:
            path: Path of a file of the conversation: shard, conversation, file.
        """
        shard = path.rsplit("/", 2)[0]
        now = time.time_ns()
        # If the clock was set back, the age is negative, and the time is set again.
        if 0 <= now - self._times.get(shard, 0) < RENEWAL_NS:
            return
        # Some shared folders do not allow it; then the daily comparison detects the change.
        with suppress(OSError):
            self._disk.touch(shard)
        self._times[shard] = now
