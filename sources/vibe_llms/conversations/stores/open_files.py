"""Open files of the conversations that were appended to last.

Opening the lock, the messages and the tally takes more than half of an append. A store keeps them
open for a few conversations, and uses them again if the folder of the conversation is unchanged:
then each path still leads to the file that is open. A deletion, a merge, a migration and a file
that a person replaces change the folder.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from vibe_llms.logs.log import Log

KEPT: Final = 8
"""Number of conversations whose files stay open, three each."""

SETTLED_NS: Final = 10_000_000_000
"""Age from which the time of a folder shows each later change: file systems round times."""

_IS_POSSIBLE: Final = os.name != "nt"  # Windows does not rename a folder with open files


class OpenLog(NamedTuple):
    """The suspended messages of one conversation, whose lock, lines and tally are open.

    Attributes:
        log: The messages.
        folder: Folder of the conversation.
        inode, changed: Number and time of change of the folder, when the files were opened. Tools
            that restore a backup set the other time, of modification.
        process: Id of the process that opened them: a child would share their locks.
    """

    log: Log
    folder: str
    inode: int
    changed: int
    process: int


class LogCache:
    """Cache of open messages, of the conversations used last. May be used by several threads."""

    def __init__(self) -> None:
        self._kept: dict[str, OpenLog] = {}

    def lock(self, identity: str, wait_seconds: float) -> OpenLog | None:
        """Lock the messages of a conversation, and take them out of the cache.

        Returns:
            ``None`` if they are not open, or are no longer those of the conversation.

        Raises:
            StoreError: Another process held the lock for too long.
        """
        kept = self._kept.pop(identity, None)
        if kept is None:
            return None
        try:
            if kept.process == os.getpid():
                kept.log.lock(wait_seconds)
                status = os.stat(kept.folder)
                if status.st_ctime_ns == kept.changed and status.st_ino == kept.inode:
                    return kept
        except FileNotFoundError:  # deleted or moved
            pass
        except BaseException:
            kept.log.close()
            raise
        kept.log.close()
        return None

    def keep(self, identity: str, kept: OpenLog) -> None:
        """Put suspended messages into the cache; close those that were used least recently."""
        former = self._kept.pop(identity, None)  # of another thread
        if former is not None:
            former.log.close()
        self._kept[identity] = kept
        while len(self._kept) > KEPT:
            try:
                oldest = self._kept.pop(next(iter(self._kept)))
            except (KeyError, StopIteration, RuntimeError):  # another thread was first
                continue
            oldest.log.close()

    def drop(self, identity: str) -> None:
        """Close the messages of a conversation, if they are open."""
        kept = self._kept.pop(identity, None)
        if kept is not None:
            kept.log.close()

    def __del__(self) -> None:
        for identity in [*self._kept]:
            self.drop(identity)


def describe_folder(folder: str, opened_ns: int) -> tuple[int, int] | None:
    """Return the number and time of a folder; ``None`` if a later change might not show.

    Args:
        opened_ns: Time before its files were opened.
    """
    if not _IS_POSSIBLE:
        return None
    status = os.stat(folder)
    is_settled = status.st_ctime_ns < opened_ns - SETTLED_NS
    return (status.st_ino, status.st_ctime_ns) if is_settled else None
