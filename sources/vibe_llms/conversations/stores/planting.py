"""Atomic creation of the folder of a new conversation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from vibe_llms.conversations.stores.layout import LOCK, MESSAGES, METADATA, RUNS, TALLY, Layout
from vibe_llms.exceptions import StoreError
from vibe_llms.logs.disk import Disk, make_folders, unfinished_folder, write_new_file
from vibe_llms.logs.tallies import Tally, encode_tally

if TYPE_CHECKING:
    from vibe_llms.conversations.run_logs.inbox import RunMessage

EMPTY: Mapping[str, bytes] = {MESSAGES: b"", TALLY: b"", LOCK: b""}
"""Files of a conversation without messages, by name.

An empty tally means that no line was acknowledged; without a tally, the number would be unknown.
"""


def compose_run_files(events: Sequence[bytes], messages: Sequence[RunMessage]) -> dict[str, bytes]:
    """Return the contents of the files of a log and of an inbox, by their names.

    Args:
        events: Lines of the log.
        messages: Messages of the inbox.
    """
    files: dict[str, bytes] = {}
    if events:
        from vibe_llms.conversations.run_logs.file_log import TALLY as RUNS_TALLY
        from vibe_llms.conversations.run_logs.log_lines import read_head

        files[RUNS] = b"".join([line + b"\n" for line in events])
        files[RUNS_TALLY] = encode_tally(Tally(read_head(events[-1]).sequence, len(files[RUNS])))
    if messages:
        from vibe_llms.conversations.run_logs.inbox import INBOX
        from vibe_llms.events.codec import encode_event

        files[INBOX] = b"".join([encode_event(message) + b"\n" for message in messages])
    return files


def put_in_place(
    layout: Layout,
    disk: Disk,
    identity: str,
    metadata: bytes,
    files: Mapping[str, bytes] = EMPTY,
    *,
    written_ns: int | None = None,
) -> None:
    """Create the folder of a new conversation.

    Args:
        metadata: Bytes of the file that makes the folder a conversation.
        files: Other files in the folder, by name.
        written_ns: Time of its last message, if that is not now.

    Raises:
        StoreError: The identity already exists.
    """
    target = layout.folder(identity)
    make_folders(disk, layout.creating)
    shard = os.path.dirname(target)
    make_folders(disk, shard)
    # A random name, as a folder from a crashed attempt must not block this one.
    temporary = f"{layout.creating}/{identity}.{os.urandom(4).hex()}"
    with unfinished_folder(disk, temporary):
        write_new_file(disk, f"{temporary}/{METADATA}", metadata)
        for name, data in files.items():
            if data and not name.endswith(".tally"):
                write_new_file(disk, f"{temporary}/{name}", data)
                continue
            with disk.create(f"{temporary}/{name}") as file:
                if data:  # not synchronized, as losing a tally is harmless
                    disk.overwrite_start(file.fileno(), data)
        if written_ns is not None:
            # If it cannot be set, the files have the time of writing.
            with suppress(OSError, OverflowError):
                disk.touch(f"{temporary}/{MESSAGES}", written_ns)
        # Before the rename: otherwise a power failure could leave an empty folder in its place.
        disk.synchronize_folder(temporary)
        try:
            disk.rename(temporary, target)
        except OSError as error:
            # The error for an existing folder depends on the system, so check whether it exists.
            if not os.path.lexists(target):
                raise
            raise StoreError(
                path=target, detail=f"The conversation {identity} already exists."
            ) from error
    disk.synchronize_folder(shard)
