"""Locking and crash recovery."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

from vibe_llms.conversations.stores import chain
from vibe_llms.conversations.stores.interfaces import Position
from vibe_llms.conversations.stores.layout import LOCK, MESSAGES, TALLY, Layout
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.logs import locks
from vibe_llms.logs.disk import Disk, make_folders
from vibe_llms.logs.log import Log
from vibe_llms.logs.tallies import Tally


@frozen
class Guards:
    """Locks of one store. Lock order: content, structure, conversation."""

    layout: Layout
    disk: Disk
    wait_seconds: float

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Recover and lock exclusively: no one else reads, creates, forks or deletes."""
        from vibe_llms.conversations.stores import removal  # few processes delete

        make_folders(self.disk, self.layout.root)
        with locks.locked(self.layout.lock, wait_seconds=self.wait_seconds):
            removal.recover(self.layout, self.disk)
            yield

    @contextmanager
    def together(self) -> Iterator[None]:
        """Recover and take a shared lock: no one deletes."""
        make_folders(self.disk, self.layout.root)
        while True:
            with locks.locked(self.layout.lock, shared=True, wait_seconds=self.wait_seconds):
                if not os.path.lexists(self.layout.deleting):
                    yield
                    return
            # Finishing a deletion needs the exclusive lock, and a shared lock cannot be upgraded:
            # release it, and look again.
            with self.alone():
                pass

    def lock(self, identity: str) -> FileIO:
        """Lock one conversation; return the value for `locks.release`."""
        return self._lock(identity)[0]

    def _lock(self, identity: str) -> tuple[FileIO, str]:
        """Lock one conversation; return its folder, too, which does not move until the release."""
        while True:
            folder = self.layout.folder(identity)
            try:
                return locks.acquire(f"{folder}/{LOCK}", wait_seconds=self.wait_seconds), folder
            except FileNotFoundError:
                if not os.path.isdir(self.layout.root):
                    raise chain.describe_unknown(self.layout, identity) from None
                from vibe_llms.conversations.stores import removal

                with self.together():
                    removal.restore_lock(self.layout, identity)

    def opened(self, identity: str, *, reading: bool = False, after: Position | None = None) -> Log:
        """Open the messages of one conversation, locked until they are closed.

        Args:
            reading: Change nothing, so that a full or read-only disk is allowed: a torn last line
                is only reported, not set aside.
            after: Position of the messages when the caller last saw them.
        """
        known = None
        if after is not None and after.acknowledged is not None:
            known = Tally(after.acknowledged, after.size)
        lock, folder = self._lock(identity)
        path = f"{folder}/{MESSAGES}"
        try:
            tally = f"{folder}/{TALLY}"
            return Log(path, self.disk, lock=lock, tally=tally, reading=reading, known=known)
        except FileNotFoundError as error:
            locks.release(lock)
            raise chain.describe_missing_messages(path) from error
        except BaseException:
            locks.release(lock)
            raise
