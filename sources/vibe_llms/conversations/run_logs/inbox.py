"""What is said to a run from outside, until whoever has its log has seen it.

A log has one writer, and a run may work for hours. So an answer to a request for an approval, a
message or a stop is a letter: the event that the log shall have, put into the inbox beside the
log by anybody, and moved into the log by whoever has that next. A letter has a name, and a log
that has the name has had the letter.
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
LETTERS: Final = 1_000
"""How many letters an inbox holds at most."""

Letter: TypeAlias = (
    ApprovalAnsweredEvent
    | GenerationAnsweredEvent
    | MessageReceivedEvent
    | RunDetachedEvent
    | RunRequestedEvent
    | RunResumedEvent
    | StopRequestedEvent
)

_Named: TypeAlias = (
    ApprovalAnsweredEvent
    | ApprovalRefusedEvent
    | GenerationAnsweredEvent
    | MessageReceivedEvent
    | RunDetachedEvent
    | RunResumedEvent
    | StopRequestedEvent
)

LETTER_WORDS: Final[frozenset[str]] = frozenset(
    attrs.fields(each).type.default for each in get_args(Letter)
)
"""By which words lines of a log say that something was said to the run."""


class Inbox(Protocol):
    """Where letters to a conversation's runs are until one has seen them."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no letter; a short look."""

    def put(self, letter: Letter) -> None:
        """Adds a letter. When this returns, it survives whatever happens.

        Raises:
            StoreError: It could not be written.
            LimitError: There are too many that nobody has seen.
            UnknownConversationError: The conversation is not in the store.
        """

    def read(self) -> Sequence[Letter]:
        """Returns all letters, oldest first; they stay.

        Raises:
            StoreError: They could not be read.
        """

    def empty(self, take: Callable[[Sequence[Letter]], None]) -> None:
        """Hands over all letters, and forgets them when that has returned; nobody adds meanwhile.

        Raises:
            StoreError: They could not be read.
        """


class FileInbox:
    """Letters in a file of a conversation's folder; see :class:`Inbox`."""

    def __init__(self, folder: str, disk: Disk | None = None) -> None:
        self._folder = folder
        self._path = f"{folder}/{INBOX}"
        self._disk = Disk() if disk is None else disk

    @property
    def is_empty(self) -> bool:
        """Whether there is no letter."""
        try:
            return os.stat(self._path).st_size == 0  # in each turn of a run
        except OSError:
            return True

    @mapping_errors
    def put(self, letter: Letter) -> None:
        """Adds a letter."""
        log = self._open(make=True)
        try:
            if log.read().count(b"\n") >= LETTERS:
                raise describe_full()
            log.append(encode_event(letter) + b"\n", certain=True)
        finally:
            log.close()

    @mapping_errors
    def read(self) -> Sequence[Letter]:
        """Returns all letters."""
        try:
            with self._open() as log:
                return self._decode(log)
        except FileNotFoundError:
            return ()

    @mapping_errors
    def empty(self, take: Callable[[Sequence[Letter]], None]) -> None:
        """Hands over all letters."""
        try:
            log = self._open()
        except FileNotFoundError:
            return
        try:
            take(self._decode(log))
            self._disk.truncate(log.descriptor, 0)
        finally:
            log.close()

    def _decode(self, log: Log) -> list[Letter]:
        return [
            decode_letter(line, self._path, number)
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
    """Letters that end with their process; see :class:`Inbox`."""

    def __init__(self) -> None:
        self._letters: list[Letter] = []
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether there is no letter."""
        return not self._letters

    def put(self, letter: Letter) -> None:
        """Adds a letter."""
        with self._lock:
            if len(self._letters) >= LETTERS:
                raise describe_full()
            self._letters.append(letter)

    def read(self) -> Sequence[Letter]:
        """Returns all letters."""
        return tuple(self._letters)

    def empty(self, take: Callable[[Sequence[Letter]], None]) -> None:
        """Hands over all letters."""
        with self._lock:
            take(tuple(self._letters))
            self._letters.clear()


def decode_letter(data: bytes, place: str, number: int) -> Letter:
    """Reads a letter. Raises CorruptionError."""
    try:
        return cast(Letter, decode_event(data))
    except (CodecError, UnicodeDecodeError) as error:
        detail = f"Cannot read a message: {error}."
        raise CorruptionError(path=place, line=number, detail=detail) from error


def read_letter_name(event: LogEvent) -> str:
    """Return the name of the letter that an event of a log came from, or an empty string."""
    return event.letter if isinstance(event, _Named) else ""


def describe_full() -> LimitError:
    """Words that nobody has looked at too many letters."""
    return LimitError(
        detail=f"{LETTERS} unread messages already wait for this run.",
        remedy="Resume or stop the run.",
        limit="letters",
        value=LETTERS,
        stage=Stage.EXECUTE,
    )
