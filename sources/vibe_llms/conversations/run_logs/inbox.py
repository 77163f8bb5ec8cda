"""Inbox of a run: messages from any process, which the holder of the log moves to the log.

A log has only one writer, and a run may hold the log for hours. So other processes put their
messages into the inbox beside the log: an approval, a user's message, a request to stop. A message
is an event of the log. The current or the next holder of the log moves the message into the log.
The field ``message_id`` prevents that a message is moved twice.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, cast, get_args

import attrs

from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.events.codec import decode_event, encode_event
from vibe_llms.events.engine import ApprovalAnsweredEvent, GenerationAnsweredEvent
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import (
    ApprovalRefusedEvent,
    MessageReceivedEvent,
    RunDetachedEvent,
    RunRequestedEvent,
    RunResumedEvent,
    StopRequestedEvent,
)
from vibe_llms.exceptions import (
    CodecError,
    CorruptionError,
    LimitError,
    Stage,
    UnknownConversationError,
)
from vibe_llms.logs import locks
from vibe_llms.logs.disk import Disk
from vibe_llms.logs.log import Log

INBOX: Final = "inbox.jsonl"
CAPACITY: Final = 1_000
"""Maximum number of messages in an inbox."""

RunMessage: TypeAlias = (
    ApprovalAnsweredEvent
    | GenerationAnsweredEvent
    | MessageReceivedEvent
    | RunDetachedEvent
    | RunRequestedEvent
    | RunResumedEvent
    | StopRequestedEvent
)

_EventWithMessageId: TypeAlias = (
    ApprovalAnsweredEvent
    | ApprovalRefusedEvent
    | GenerationAnsweredEvent
    | MessageReceivedEvent
    | RunDetachedEvent
    | RunResumedEvent
    | StopRequestedEvent
)

MESSAGE_TYPES: Final[frozenset[str]] = frozenset(
    attrs.fields(each).type.default for each in get_args(RunMessage)
)
"""Event types of messages in a log."""


class RunInbox(Protocol):
    """Inbox of a conversation's runs."""

    @property
    def is_empty(self) -> bool:
        """True if the inbox is empty. This is fast."""

    def put(self, message: RunMessage) -> None:
        """Add a message. When this returns, it is on the disk.

        Raises:
            StoreError: The message could not be written.
            LimitError: The inbox is full.
            UnknownConversationError: The conversation is not in the store.
        """

    def read(self) -> Sequence[RunMessage]:
        """Return all messages, oldest first; keep them.

        Raises:
            StoreError: The inbox could not be read.
        """

    def empty(self, handle: Callable[[Sequence[RunMessage]], None]) -> None:
        """Pass all messages to a function, and remove them when it returns.

        The inbox is locked meanwhile.

        Raises:
            StoreError: The inbox could not be read.
        """


class FileInbox:
    """Inbox in a file of a conversation's folder; see :class:`RunInbox`."""

    def __init__(self, folder: str, disk: Disk | None = None) -> None:
        self._folder = folder
        self._path = f"{folder}/{INBOX}"
        self._disk = Disk() if disk is None else disk

    @property
    def is_empty(self) -> bool:
        """True if the inbox is empty."""
        try:
            return os.stat(self._path).st_size == 0  # called in each turn of a run
        except OSError:
            return True

    @mapping_errors
    def put(self, message: RunMessage) -> None:
        """Add a message."""
        log = self._open(make=True)
        try:
            if log.read().count(b"\n") >= CAPACITY:
                raise describe_full()
            log.append(encode_event(message) + b"\n", durable=True)
        finally:
            log.close()

    @mapping_errors
    def read(self) -> Sequence[RunMessage]:
        """Return all messages."""
        try:
            with self._open() as log:
                return self._decode(log)
        except FileNotFoundError:
            return ()

    @mapping_errors
    def empty(self, handle: Callable[[Sequence[RunMessage]], None]) -> None:
        """Pass all messages to a function, then remove them."""
        try:
            log = self._open()
        except FileNotFoundError:
            return
        try:
            handle(self._decode(log))
            self._disk.truncate(log.descriptor, 0)
        finally:
            log.close()

    def _decode(self, log: Log) -> list[RunMessage]:
        return [
            decode_message(line, self._path, number)
            for number, line in enumerate(log.read().splitlines(), 1)
        ]

    def _open(self, *, make: bool = False) -> Log:
        while True:
            try:
                lock = locks.acquire(self._path)
                break
            except FileNotFoundError:
                if not make:
                    raise
            try:
                self._disk.create(self._path).close()
                self._disk.synchronize_folder(self._folder)
            except FileExistsError:
                continue
            except FileNotFoundError:
                identity = os.path.basename(self._folder)
                raise UnknownConversationError(identity=identity, path=self._folder) from None
        try:
            return Log(self._path, self._disk, lock=lock, file=lock)
        except BaseException:
            locks.release(lock)
            raise


class MemoryInbox:
    """Inbox in memory; see :class:`RunInbox`."""

    def __init__(self) -> None:
        self._messages: list[RunMessage] = []
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """True if the inbox is empty."""
        return not self._messages

    def put(self, message: RunMessage) -> None:
        """Add a message."""
        with self._lock:
            if len(self._messages) >= CAPACITY:
                raise describe_full()
            self._messages.append(message)

    def read(self) -> Sequence[RunMessage]:
        """Return all messages."""
        return tuple(self._messages)

    def empty(self, handle: Callable[[Sequence[RunMessage]], None]) -> None:
        """Pass all messages to a function, then remove them."""
        with self._lock:
            handle(tuple(self._messages))
            self._messages.clear()


def decode_message(data: bytes, place: str, number: int) -> RunMessage:
    """Decode a message. Raises CorruptionError."""
    try:
        return cast(RunMessage, decode_event(data))
    except (CodecError, UnicodeDecodeError) as error:
        detail = f"Cannot read a message: {error}."
        raise CorruptionError(path=place, line=number, detail=detail) from error


def read_message_id(event: LogEvent) -> str:
    """Return the id of the message that became an event of a log; empty if it was none."""
    return event.message_id if isinstance(event, _EventWithMessageId) else ""


def describe_full() -> LimitError:
    """Describe the error that too many messages are unread."""
    return LimitError(
        detail=f"{CAPACITY} unread messages already wait for this run.",
        remedy="Resume or stop the run.",
        limit="messages",
        value=CAPACITY,
        stage=Stage.EXECUTE,
    )
