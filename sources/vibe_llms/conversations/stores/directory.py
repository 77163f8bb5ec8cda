"""Default store: one folder per conversation, below one directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from vibe_llms.conversations.canister_media import needs_content_store
from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink, order_tags
from vibe_llms.conversations.stores import chain, parts
from vibe_llms.conversations.stores import descriptors as toml
from vibe_llms.conversations.stores.content_directory import ContentDirectory
from vibe_llms.conversations.stores.defaults import StoreDefaults
from vibe_llms.conversations.stores.guards import Guards
from vibe_llms.conversations.stores.identities import find_references
from vibe_llms.conversations.stores.interfaces import (
    Examination,
    History,
    Position,
    Receipt,
    Seen,
)
from vibe_llms.conversations.stores.layout import MESSAGES, RUNS, TALLY, Layout
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.conversations.stores.marks import ChangeMarks
from vibe_llms.conversations.stores.media import detach_media, ensure_distinct
from vibe_llms.conversations.stores.moments import find_moment
from vibe_llms.conversations.stores.planting import EMPTY, compose_run_files, put_in_place
from vibe_llms.conversations.stores.sharding import measure_files, survey_folders, survey_identities
from vibe_llms.exceptions import (
    CorruptionError,
    Finding,
    StaleConversationError,
)
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.files import read_regular
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.logs import locks, tallies
from vibe_llms.logs.disk import Disk, replace_file
from vibe_llms.logs.lines import join_lines
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import access_now, produce_identity

if TYPE_CHECKING:
    from vibe_llms.conversations.notes.directory import NoteDirectory
    from vibe_llms.conversations.run_logs.file_log import FileLog
    from vibe_llms.conversations.run_logs.inbox import FileInbox, RunMessage
    from vibe_llms.conversations.stores.vendor_notes import DirectoryNotes


@define(init=False)
class DirectoryStore(StoreDefaults):
    """Store of conversations in a directory; see :class:`.interfaces.ConversationStore`.

    Args:
        path: Path of the directory that contains, or will contain, ``conversations`` and
            ``content``.
        disk: Performs every change; tests replace it.
        wait_seconds: Timeout for locks.
    """

    layout: Layout  # stores of one directory are equal, with any spelling of its path
    disk: Disk = attrs.field(eq=False)
    guards: Guards = attrs.field(eq=False)
    contents: ContentDirectory = attrs.field(eq=False)
    marks: ChangeMarks = attrs.field(eq=False)
    keeps_logs = plants_whole = True

    def __init__(
        self,
        path: Path | str,
        *,
        disk: Disk | None = None,
        wait_seconds: float = locks.WAIT_SECONDS,
    ) -> None:
        # Absolute, so that a directory stays the same store after a change of the working
        # directory, and with another spelling of the path.
        root = os.path.abspath(path)
        self.disk = Disk() if disk is None else disk
        self.layout = Layout(os.path.join(root, "conversations"))
        self.guards = Guards(self.layout, self.disk, wait_seconds)
        self.marks = ChangeMarks(self.disk)
        self.contents = ContentDirectory(os.path.join(root, "content"), self.disk, wait_seconds)

    @property
    def vendor_files(self) -> DirectoryNotes:
        """Notes about vendors' files of contents, in ``vendors.toml`` beside each."""
        from vibe_llms.conversations.stores.vendor_notes import DirectoryNotes

        return DirectoryNotes(self.contents)

    @property
    def notes(self) -> NoteDirectory:
        """Notes of models and users, each a file below ``notes``."""
        from vibe_llms.conversations.notes.directory import NoteDirectory

        contents = self.contents
        root = os.path.join(os.path.dirname(contents.root), "notes")
        return NoteDirectory(root, self.disk, contents.wait_seconds)

    # --- writing ---------------------------------------------------------------------------

    @mapping_errors
    def create(self, identity: str, metadata: ConversationMetadata) -> Position:
        """Create a conversation."""
        table = toml.produce_table(identity, metadata)
        with self.guards.shared_lock():
            # The lock prevents that the parent is deleted before the fork refers to it.
            if metadata.parent is not None:
                chain.read_table(self.layout, metadata.parent.identity)
            put_in_place(self.layout, self.disk, identity, toml.encode_table(table))
        return Position()

    @mapping_errors
    def plant(
        self,
        identity: str,
        metadata: ConversationMetadata,
        canisters: Sequence[AnyCanister],
        *,
        events: Sequence[bytes] = (),
        messages: Sequence[RunMessage] = (),
    ) -> Position:
        """Create a conversation with canisters, a log of runs and an inbox."""
        ensure_distinct(canisters)
        other_files = compose_run_files(events, messages)
        table = toml.produce_table(identity, metadata)
        needs_hold = needs_content_store(canisters) or any(
            map(find_references, other_files.values())
        )
        with self.contents.hold() if needs_hold else nullcontext(), self.guards.shared_lock():
            if metadata.parent is not None:
                chain.read_table(self.layout, metadata.parent.identity)
            data = _access_encoder()(detach_media(canisters, self.contents))
            tally = tallies.encode_tally(tallies.Tally(len(canisters), len(data)))
            message_files = {MESSAGES: data, TALLY: tally} if canisters else {}
            put_in_place(
                self.layout,
                self.disk,
                identity,
                toml.encode_table(table),
                {**EMPTY, **message_files, **other_files},
                written_ns=round(metadata.updated.timestamp() * 1_000_000) * 1_000,
            )
        return Position(size=len(data))

    @mapping_errors
    def append(
        self, identity: str, canisters: Sequence[AnyCanister], *, after: Position | None = None
    ) -> Receipt:
        """Append canisters, all or none."""
        if len(canisters) > 1:
            ensure_distinct(canisters)
        if not needs_content_store(canisters):
            return self._append(identity, canisters, after)
        # From before content is added until a line refers to it, garbage collection must wait.
        with self.contents.hold():
            detached = detach_media(canisters, self.contents, add=self.contents.add_while_locked)
            return self._append(identity, detached, after)

    def _append(
        self, identity: str, canisters: Sequence[AnyCanister], after: Position | None
    ) -> Receipt:
        data = _access_encoder()(canisters)
        if len(canisters) > 1:
            data = join_lines(data, len(canisters))
        moment = find_moment(canisters, access_now())
        log, opened = self.guards.open_to_append(identity, after)
        try:
            if after is not None and after.size == log.end.size:
                merged = after.merged
            else:
                merged = self._ensure_unchanged(identity, log.end.size, after)
            # The time of an empty file is that of its creation, not of a message.
            previous_ns = log.modified_ns if moment is not None and log.end.size else 0
            self.marks.mark(log.path)
            if data:
                log.append(data, len(canisters), durable=True)
            if moment is not None:
                self._set_time(log.path, moment, previous_ns)
            self.marks.mark(log.path)
        except BaseException:
            log.close()
            raise
        self.guards.put_back(identity, log, opened)
        position = Position(size=log.end.size, merged=merged, acknowledged=log.acknowledged)
        return Receipt(position=position, notices=log.notices)

    def _ensure_unchanged(self, identity: str, size: int, after: Position | None) -> int:
        """Return the merged size. Raises StaleConversationError if others have appended."""
        # The metadata are read only in rare cases: a first append, a merge, a conflict.
        merged = toml.merged_bytes_of(chain.read_table(self.layout, identity))
        # When a parent is deleted, its lines are merged here: that is not an append.
        if after is not None and size - merged != after.own_size:
            raise StaleConversationError(
                identity=identity,
                path=self.layout.messages(identity),
                remedy="Read it again, fork it, or append the other messages, too.",
            )
        return merged

    def _set_time(self, path: str, moment: datetime, previous_ns: int) -> None:
        """Set the file's time to the canisters' time, so that old canisters are not new.

        If the file system does not allow it, the file keeps the time of writing.
        """
        with suppress(OSError, OverflowError):
            # Whole microseconds: a float is not more precise for present times.
            ns = round(moment.timestamp() * 1_000_000) * 1_000
            # Never set the time back, as earlier canisters may be newer.
            self.disk.touch(path, max(previous_ns, ns, 0))

    @mapping_errors
    def secure(self, identity: str) -> None:
        """Wait until all readable data survive a crash of the machine."""
        self._secure(identity)

    def _secure(self, identity: str) -> int:
        """Synchronize the messages; return their size."""
        with self.guards.opened(identity) as log:
            log.synchronize()
        return log.end.size

    @mapping_errors
    def update_metadata(
        self,
        identity: str,
        *,
        name: str | None | Absence = ABSENT,
        tags: Sequence[str] | Absence = ABSENT,
        model: str | None | Absence = ABSENT,
        keep: int | None | Absence = ABSENT,
        pinned: Sequence[str] | Absence = ABSENT,
    ) -> ConversationMetadata:
        """Change some fields and keep the others; return the result."""
        changes: dict[str, object] = {"name": name, "model": model, "keep": keep}
        for field, values in (("tags", tags), ("pinned", pinned)):
            if not isinstance(values, Absence):
                changes[field] = list(order_tags(values))
        changes = {field: value for field, value in changes.items() if value is not ABSENT}
        with self.guards.shared_lock():
            # The other lock is shared, so this one prevents that concurrent changes undo each
            # other.
            lock = self.guards.lock(identity)
            try:
                table = toml.change_table(chain.read_table(self.layout, identity), changes)
                path = self.layout.metadata(identity)
                self.marks.mark(path)
                replace_file(self.disk, path, toml.encode_table(table))
            finally:
                locks.release(lock)
        return self._interpret(identity, table)

    @mapping_errors
    def fork(
        self, identity: str, *, from_index: int | None = None, child: str | None = None
    ) -> str:
        """Create a fork, which shares the history of another conversation; return its identity."""
        child = produce_identity() if child is None else child
        with self.guards.shared_lock():
            table = chain.read_table(self.layout, identity)
            # A power failure must not lose lines of the parent to which the fork refers.
            size = self._secure(identity)
            if from_index is None:
                # Without merged bytes, whose number changes if another ancestor is deleted.
                size -= toml.merged_bytes_of(table)
                link = ParentLink(identity=identity, bytes=size)
            else:
                link = ParentLink(identity=identity, canisters=from_index)
            parent = toml.interpret_table(table, self.layout.metadata(identity), None)
            data = toml.encode_table(toml.produce_table(child, parent.fork(link)))
            put_in_place(self.layout, self.disk, child, data)
        return child

    @mapping_errors
    def delete(self, identity: str) -> None:
        """Delete a conversation; first copy shared lines to its forks."""
        from vibe_llms.conversations.stores import removal

        self.layout.folder(identity)  # raises for an invalid identity, before anything is locked
        self.guards.logs.drop(identity)
        with self.guards.exclusive_lock():
            removal.remove_conversation(
                self.layout, self.disk, identity, self.survey(), self.guards.wait_seconds
            )

    # --- reading ---------------------------------------------------------------------------

    @mapping_errors
    def read(self, identity: str, *, tolerant: bool = False) -> History:
        """Read a complete conversation."""
        with self.guards.shared_lock():
            table = chain.read_table(self.layout, identity)
            inherited, error = self._read_inherited(identity)
            if error is not None and not tolerant:
                raise error
            own_part = self._read_part(identity, table)
            if own_part.torn_findings and not tolerant:
                own_part = self._repair(identity, own_part)
        notices = [
            *own_part.torn_findings,
            *([own_part.loss] if own_part.loss else []),
            *_list_error(error),
        ]
        canisters: list[AnyCanister] = []
        for part in (*inherited, own_part.part):
            read, findings = parts.decode_part(part, tolerant=tolerant)
            canisters.extend(read)
            notices.extend(findings)
        return History(
            identity=identity,
            metadata=self._interpret(identity, table),
            canisters=tuple(canisters),
            position=own_part.position,
            notices=tuple(notices),
        )

    @mapping_errors
    def read_on(self, identity: str, after: Position) -> History | None:
        """Read only the canisters behind a position."""
        with self.guards.shared_lock():
            table = chain.read_table(self.layout, identity)
            merged = toml.merged_bytes_of(table)
            with self.guards.opened(identity, reading=True) as log:
                data = log.read_from(after.own_size + merged)
        if data is None:
            return None
        part = parts.FilePart(path=self.layout.messages(identity), data=data)
        try:
            canisters, _ = parts.decode_part(part)
        except CorruptionError:  # reading all of it names the line
            return None
        return History(
            identity=identity,
            metadata=self._interpret(identity, table),
            canisters=tuple(canisters),
            position=Position(size=log.end.size, merged=merged),
        )

    def _read_inherited(self, identity: str) -> tuple[list[parts.FilePart], CorruptionError | None]:
        try:
            levels = chain.walk_to_root(self.layout, identity)
            return chain.read_inherited(self.layout, levels), None
        except CorruptionError as error:
            # A tolerant reader continues with the lines of the conversation's file only.
            return [], error

    def _read_part(self, identity: str, table: toml.Table) -> _OwnPart:
        """Read the complete lines of one conversation's file, without inherited lines."""
        path = self.layout.messages(identity)
        with self.guards.opened(identity, reading=True) as log:
            data = log.read()
            loss = tallies.find_loss(self.layout.tally(identity), data.count(b"\n"), path)
        return _OwnPart(
            part=parts.FilePart(path=path, data=data),
            position=Position(size=log.end.size, merged=toml.merged_bytes_of(table)),
            torn_findings=log.notices,
            loss=loss,
        )

    def _repair(self, identity: str, own_part: _OwnPart) -> _OwnPart:
        """Move an incomplete last line to another file, if the disk permits it.

        The lines that were read are valid in any case.
        """
        with suppress(OSError), self.guards.opened(identity) as log:
            return attrs.evolve(own_part, torn_findings=log.notices or own_part.torn_findings)
        return own_part

    @mapping_errors
    def read_metadata(self, identity: str) -> ConversationMetadata:
        """Return the metadata without reading the canisters."""
        return self._interpret(identity, chain.read_table(self.layout, identity))

    def _interpret(self, identity: str, table: toml.Table) -> ConversationMetadata:
        path = self.layout.messages(identity)
        try:
            status = os.stat(path)
        except FileNotFoundError:
            written = None
        else:
            written = status.st_mtime_ns if status.st_size else None
        return toml.interpret_table(table, self.layout.metadata(identity), written)

    def locate(self, identity: str) -> str:
        """Return the folder of a conversation."""
        return self.layout.folder(identity)

    def open_log(self, identity: str) -> FileLog:
        """Return the log of a conversation's runs, in its folder."""
        kind = _access_log_class()  # polled often, for all logs of a store
        return kind(self.layout.folder(identity), contents=self.contents, disk=self.disk)

    def open_inbox(self, identity: str) -> FileInbox:
        """Return the inbox of a conversation's runs, in its folder."""
        from vibe_llms.conversations.run_logs.inbox import FileInbox

        return FileInbox(self.layout.folder(identity), self.disk)

    @mapping_errors
    def survey(self) -> Iterator[str]:
        """Yield the identities of all conversations."""
        # A list, as `mapping_errors` does not see errors that a generator raises later.
        return iter([*survey_identities(self.layout.root)])

    @mapping_errors
    def measure_logs(self) -> Mapping[str, object]:
        """Return the measures of all logs of runs, by the identities of their conversations."""
        return measure_files(self.layout.root, RUNS)

    @mapping_errors
    def survey_references(self) -> Iterator[str]:
        """Yield the ids of all content that conversations need, even in damaged lines."""
        with self.guards.shared_lock():
            found: set[str] = set()
            for folder in survey_folders(self.layout.root):  # also folders that a user has renamed
                found |= self._find_references(folder)
        return iter(found)

    def _find_references(self, folder: str) -> set[str]:
        found: set[str] = set()
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):  # a foreign file, or just deleted
            return found
        for name in names:
            if name.endswith(".tally"):  # it contains only numbers
                continue
            if name.startswith(("messages.", "runs.")):  # also files with incomplete lines
                data = read_regular(f"{folder}/{name}")
                found |= find_references(data)
        return found

    @mapping_errors
    def examine(self, identity: str, *, seen: Seen | None = None) -> Examination:
        """Verify the lines of the conversation's file, and the link to its parent."""
        from vibe_llms.conversations.stores.examining import Examiner

        return Examiner(self.layout, self.guards, {} if seen is None else seen).examine(identity)


@frozen(kw_only=True)
class _OwnPart:
    """The content of the conversation's file.

    Attributes:
        part: The complete lines.
        position: The end of the lines.
        torn_findings: Findings about an incomplete last line.
        loss: A finding about missing lines, if any.
    """

    part: parts.FilePart
    position: Position
    torn_findings: tuple[Finding, ...]
    loss: Finding | None


def _list_error(error: CorruptionError | None) -> list[Finding]:
    return [] if error is None else [Finding(place=error.path, message=error.detail)]


@cache
def _access_encoder() -> Callable[[Sequence[AnyCanister]], bytes]:
    """Return the codec, imported on first use; read-only callers do not need it."""
    from vibe_llms.messages.codec.canister_lines import encode_canisters

    return encode_canisters


@cache
def _access_log_class() -> type[FileLog]:
    from vibe_llms.conversations.run_logs.file_log import FileLog

    return FileLog
