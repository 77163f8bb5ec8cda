"""Cache of the open files of conversations that were appended to last.

Opening the lock, the messages and the tally takes more than half of an append. A store keeps files
open for a few conversations, and uses them again if the folder of the conversation is unchanged:
then the paths still belong to the open files. A deletion, a merge, a migration, and a user who
replaces a file, all change the folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

from vibe_llms.logs.log import Log

CAPACITY: Final = 8
"""Number of conversations whose files stay open, three each."""

SETTLED_NS: Final = 10_000_000_000
"""Age from which any later change of a folder gives it another time; file systems round times."""

_IS_POSSIBLE: Final = os.name != "nt"  # Windows does not rename a folder with open files


class OpenLog(NamedTuple):
    """The suspended messages of one conversation, whose lock, lines and tally are open.

    Attributes:
        log: The messages.
        folder: Folder of the conversation.
        inode, changed: Inode and time of change of the folder, when the files were opened. Not the
            time of modification, which tools that restore backups set.
        process: Id of the process that opened the files, as a child process would share the locks.
    """

    log: Log
    folder: str
    inode: int
    changed: int
    process: int

    def close(self) -> None:
        """Close the files; in a child process, without releasing its parent's lock.

        A lock belongs to the open file that both share: the child would release it in the middle of
        an append of the parent.
        """
        if self.process == os.getpid():
            self.log.close()
        else:
            self.log.close_inherited()


class LogCache:
    """Cache of open messages, of the conversations used last. May be used by several threads."""

    def __init__(self) -> None:
        self._open_logs: dict[str, OpenLog] = {}

    def lock(self, identity: str, wait_seconds: float) -> OpenLog | None:
        """Lock the messages of a conversation, and take them out of the cache.

        Returns:
            ``None`` if no files are open, or if they no longer belong to the conversation.

        Raises:
            StoreError: Another process held the lock for too long.
        """
        open_log = self._open_logs.pop(identity, None)
        if open_log is None:
            return None
        try:
            if open_log.process == os.getpid():
                open_log.log.lock(wait_seconds)
                status = os.stat(open_log.folder)
                if status.st_ctime_ns == open_log.changed and status.st_ino == open_log.inode:
                    return open_log
        except FileNotFoundError:  # deleted or moved
            pass
        except BaseException:
            open_log.close()
            raise
        open_log.close()
        return None

    def keep(self, identity: str, open_log: OpenLog) -> None:
        """Put suspended messages into the cache; close those that were used least recently."""
        previous = self._open_logs.pop(identity, None)  # of another thread
        if previous is not None:
            previous.close()
        self._open_logs[identity] = open_log
        while len(self._open_logs) > CAPACITY:
            try:
                oldest = self._open_logs.pop(next(iter(self._open_logs)))
            except (KeyError, StopIteration, RuntimeError):  # another thread was first
                continue
            oldest.close()

    def drop(self, identity: str) -> None:
        """Close the messages of a conversation, if they are open."""
        open_log = self._open_logs.pop(identity, None)
        if open_log is not None:
            open_log.close()

    def __del__(self) -> None:
        for identity in [*self._open_logs]:
            # The garbage collector may have closed the files of a reference cycle already.
            with suppress(ValueError):
                self.drop(identity)


def describe_folder(folder: str, opened_ns: int) -> tuple[int, int] | None:
    """Return the inode and the time of a folder; ``None`` if a later change could keep the time.

    Args:
        opened_ns: Time before its files were opened.
    """
    if not _IS_POSSIBLE:
        return None
    status = os.stat(folder)
    is_certain = status.st_ctime_ns < opened_ns - SETTLED_NS
    return (status.st_ino, status.st_ctime_ns) if is_certain else None
