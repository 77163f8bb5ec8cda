"""Locking and crash recovery."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

import attrs

from vibe_llms.conversations.stores import chain
from vibe_llms.conversations.stores.interfaces import Position
from vibe_llms.conversations.stores.layout import LOCK, MESSAGES, TALLY, Layout
from vibe_llms.conversations.stores.open_files import LogCache, OpenLog, describe_folder
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
    logs: LogCache = attrs.field(factory=LogCache, eq=False, repr=False)

    @contextmanager
    def exclusive_lock(self) -> Iterator[None]:
        """Recover, and take the exclusive lock, so that no other caller uses the store."""
        from vibe_llms.conversations.stores import removal  # few processes delete

        make_folders(self.disk, self.layout.root)
        with locks.locked(self.layout.lock, wait_seconds=self.wait_seconds):
            removal.recover(self.layout, self.disk)
            yield

    @contextmanager
    def shared_lock(self) -> Iterator[None]:
        """Recover, and take the shared lock, so that no other caller deletes."""
        make_folders(self.disk, self.layout.root)
        while True:
            with locks.locked(self.layout.lock, shared=True, wait_seconds=self.wait_seconds):
                if not os.path.lexists(self.layout.deleting):
                    yield
                    return
            # A deletion was interrupted. Completing it needs the exclusive lock, and a shared lock
            # cannot be upgraded: release it, recover, and try again.
            with self.exclusive_lock():
                pass

    def lock(self, identity: str) -> FileIO:
        """Lock one conversation; return the value for `locks.release`."""
        return self._lock(identity)[0]

    def _lock(self, identity: str) -> tuple[FileIO, str]:
        """Lock one conversation; also return its folder, which does not move until the release."""
        folder = self.layout.shard_folder(identity)  # most are there; others are searched below
        while True:
            try:
                return locks.acquire(f"{folder}/{LOCK}", wait_seconds=self.wait_seconds), folder
            except FileNotFoundError:
                if not os.path.isdir(self.layout.root):
                    raise chain.describe_unknown(self.layout, identity) from None
                previous, folder = folder, self.layout.folder(identity)
                if folder != previous:
                    continue
                from vibe_llms.conversations.stores import removal

                with self.shared_lock():
                    removal.restore_lock(self.layout, identity)

    def opened(self, identity: str, *, reading: bool = False) -> Log:
        """Open the file of one conversation's messages, which is locked until it is closed.

        Args:
            reading: Change nothing, so that a full or read-only disk does not matter: an incomplete
                last line is only reported, and stays in the file.
        """
        lock, folder = self._lock(identity)
        return self._open(lock, folder, reading=reading)

    def open_to_append(self, identity: str, after: Position | None) -> tuple[Log, OpenLog | int]:
        """Open and lock the messages of one conversation, or use files that are still open.

        Args:
            after: Position of the messages when the caller last saw them.

        Returns:
            The log, and the second argument for :meth:`put_back`.
        """
        cached = self.logs.lock(identity, self.wait_seconds)
        if cached is None:
            known = None
            if after is not None and after.acknowledged is not None:
                known = Tally(after.acknowledged, after.size)
            opened_ns = time.time_ns()
            lock, folder = self._lock(identity)
            return self._open(lock, folder, known=known, keeps_tally=True), opened_ns
        try:
            cached.log.resume(None if after is None else after.size)
        except BaseException:
            cached.log.close()
            raise
        return cached.log, cached

    def put_back(self, identity: str, log: Log, opened: OpenLog | int) -> None:
        """Release the lock after an append; leave the files open if that is safe."""
        if isinstance(opened, OpenLog):
            if log.suspend():
                self.logs.keep(identity, opened)
            return
        folder = log.path.rpartition("/")[0]
        found = describe_folder(folder, opened)
        if found is None:
            log.close()
        elif log.suspend():
            self.logs.keep(identity, OpenLog(log, folder, *found, os.getpid()))

    def _open(
        self,
        lock: FileIO,
        folder: str,
        *,
        reading: bool = False,
        known: Tally | None = None,
        keeps_tally: bool = False,
    ) -> Log:
        path = f"{folder}/{MESSAGES}"
        try:
            return Log(
                path,
                self.disk,
                lock=lock,
                tally=f"{folder}/{TALLY}",
                reading=reading,
                known=known,
                keeps_tally=keeps_tally,
            )
        except FileNotFoundError as error:
            locks.release(lock)
            raise chain.describe_missing_messages(path) from error
        except BaseException:
            locks.release(lock)
            raise
