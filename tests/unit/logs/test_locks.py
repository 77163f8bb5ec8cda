"""Locks and descriptors outlive no interrupt, wherever it strikes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from vibe_llms.batches.file_journals import FileJournal
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.file_log import FileLog
from vibe_llms.conversations.stores import open_files
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.events.runs import StopRequestedEvent
from vibe_llms.foundation.files import read_file, write_file
from vibe_llms.logs import locks
from vibe_llms.messages.canisters import UserCanister

needs_descriptors = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="the system does not list open descriptors"
)
_FILES = ("/logs/", "/files.py", "guards.py", "directory.py", "/runs/", "line_journals.py")


def interrupt(work: Callable[[], object], step: int) -> bool:
    """Raises KeyboardInterrupt before a given step of our code; tells whether there was one."""
    left = step

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        code = frame.f_code
        # In `synchronize_folder`, nothing owns the descriptor of a folder; Python looks for
        # interrupts nowhere between its opening and its closing but in `fsync`.
        if code.co_name == "synchronize_folder" or not any(
            part in code.co_filename for part in _FILES
        ):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(former)
    return left <= 0


def survey_open(folder: Path) -> list[str]:
    """Returns the files of a folder that this process has open, one name per descriptor.

    Others do not count: threads of earlier tests may open and close theirs meanwhile.
    """
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            found.append(str(each.readlink()))
    return sorted(each for each in found if each.startswith(str(folder)))


def say_more(store: DirectoryStore) -> None:
    store.append("a", [UserCanister("More.")])


def lock_and_release(store: DirectoryStore) -> None:
    with locks.locked(f"{store.layout.root}/other.lock"):
        pass


def claim_log(store: DirectoryStore) -> None:
    log = FileLog(store.locate("a"), disk=store.disk)
    try:
        log.claim()
    finally:
        log.close()


def leave_message(store: DirectoryStore) -> None:
    store.open_inbox("a").put(StopRequestedEvent(message_id="1"))


def write_journal(store: DirectoryStore) -> None:
    FileJournal(Path(store.layout.root) / "batch.jsonl", "batch").close()


def write_files(store: DirectoryStore) -> None:
    path = Path(store.layout.root) / "file"
    write_file(path, b"data")
    read_file(path)


@pytest.mark.slow
@needs_descriptors
@pytest.mark.parametrize(
    ("work", "keeps_open"),
    [
        (say_more, False),
        (say_more, True),
        (lock_and_release, False),
        (claim_log, False),
        (leave_message, False),
        (write_journal, False),
        (write_files, False),
    ],
)
def test_an_interrupt_at_any_step_leaves_no_lock_and_no_descriptor(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[DirectoryStore], None],
    keeps_open: bool,
) -> None:
    # A store keeps files open once their folder has not changed for some seconds.
    monkeypatch.setattr(open_files, "SETTLED_NS", -(10**15) if keeps_open else 10**15)
    store = DirectoryStore(tmp_path, wait_seconds=0)
    store.create("a", ConversationMetadata())
    work(store)
    gc.collect()
    before = survey_open(tmp_path)
    assert bool(before) == keeps_open

    def interrupt_each() -> int:
        for step in count(1):
            was_interrupted = interrupt(lambda: work(store), step)
            work(store)  # the lock is free at once
            assert survey_open(tmp_path) == before, f"step {step} of {work.__name__}"
            if not was_interrupted:
                break
        return step

    # In a thread of its own: an interrupt within an `except` may leave its thread in there.
    with ThreadPoolExecutor(1) as pool:
        steps = pool.submit(interrupt_each).result()
    assert steps > (100 if sys.version_info < (3, 12) else 10)  # later ones tell of lines alone
