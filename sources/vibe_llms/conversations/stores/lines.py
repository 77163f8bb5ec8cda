"""The file ``messages.jsonl``: whole lines at its end, and what a crash may leave there.

A file that does not end in a newline was torn by a crash in the middle of a write which nobody
was told had succeeded. The torn bytes are set aside in a file of their own, never thrown away.

Lines that are appended together are there together or not at all: each but the last of them ends
in a tab and the newline, so that a beginning without its end can be told. To readers of JSON the
tab is nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import attrs

from vibe_llms.conversations.stores.disk import Disk, write_new_file
from vibe_llms.exceptions import CodecError, CorruptionError, Finding
from vibe_llms.messages.canisters import AnyCanister

MESSAGES = "messages.jsonl"
_STEP_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20
_MORE = b"\t\n"
"""Ends a line that was appended together with the next."""


def join_lines(data: bytes, count: int) -> bytes:
    """Marks so many lines as one append."""
    return data.replace(b"\n", _MORE, count - 1) if count > 1 else data


def end_lines(data: bytes) -> bytes:
    """Makes the end of some lines the end of an append, without changing their size."""
    return data[: -len(_MORE)] + b" \n" if data.endswith(_MORE) else data


def read_at(descriptor: int, start: int, size: int) -> bytes:
    """Reads bytes from the middle of a file; fewer where it ends before."""
    os.lseek(descriptor, start, os.SEEK_SET)
    data = os.read(descriptor, size)
    while len(data) < size and (more := os.read(descriptor, size - len(data))):
        data += more
    return data


def count_lines(descriptor: int, size: int) -> int:
    """Returns how many lines end within the first bytes of a file."""
    count = at = 0
    while block := read_at(descriptor, at, min(_BLOCK_BYTES, size - at)):
        count += block.count(b"\n")
        at += len(block)
    return count


def find_torn_start(descriptor: int, size: int) -> int:
    """Returns where the whole appends of a file end: its size, unless the last one is torn."""
    tail = read_at(descriptor, max(0, size - len(_MORE)), len(_MORE)) if size else b"\n"
    if tail.endswith(b"\n") and tail != _MORE:
        return size
    end = find_line_start(descriptor, size)
    while read_at(descriptor, max(0, end - len(_MORE)), len(_MORE)) == _MORE:
        end = find_line_start(descriptor, end - 1)
    return end


def find_line_start(descriptor: int, end: int) -> int:
    """Returns where the line begins that goes on until a point, after the newline before it."""
    while end > 0:
        start = max(0, end - _STEP_BYTES)
        found = read_at(descriptor, start, end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def set_torn_aside(
    disk: Disk, folder: str, descriptor: int, start: int, size: int, name: str = MESSAGES
) -> Finding:
    """Moves the torn end of a file of lines into one beside it. The lock must be held.

    The copy is certain before the original is cut off; a crash between leaves both.

    Args:
        name: Of the file.
    """
    torn = read_at(descriptor, start, size - start)
    stem = name.removesuffix(".jsonl")
    number = 1
    while os.path.lexists(f"{folder}/{stem}.torn-{number}"):
        number += 1
    target = f"{folder}/{stem}.torn-{number}"
    write_new_file(disk, target, torn)
    disk.synchronize_folder(folder)
    disk.truncate(descriptor, start)
    disk.synchronize(descriptor)
    return describe_torn(folder, f"was set aside in {target}", size - start, name)


def describe_torn(folder: str, fate: str, size: int, name: str = MESSAGES) -> Finding:
    """Words the notice of a torn line."""
    return Finding(
        place=f"{folder}/{name}",
        message=f"What was written last was torn by a crash ({size} bytes, never acknowledged);"
        f" it {fate}.",
    )


def measure_lines(data: bytes, count: int) -> int | None:
    """Returns the size in bytes of the first lines; ``None`` where there are fewer."""
    at = 0
    while count > 0:
        # Whole blocks are counted at the speed of memory; only the last is searched by line.
        lines = data.count(b"\n", at, at + _STEP_BYTES)
        if lines >= count or at + _STEP_BYTES >= len(data):
            break
        count -= lines
        at += _STEP_BYTES
    for _ in range(count):
        at = data.find(b"\n", at) + 1
        if at == 0:
            return None
    return at


@attrs.frozen(kw_only=True)
class Part:
    """The first lines of one file."""

    path: str
    data: bytes


def decode_part(
    part: Part, *, tolerant: bool = False
) -> tuple[Sequence[AnyCanister], list[Finding]]:
    """Reads the canisters of some lines.

    Args:
        tolerant: Leave out the lines that do not read, and report them.

    Raises:
        CorruptionError: A line does not read; says file and line. Not if tolerant.
    """
    from vibe_llms.messages.codec import decode_canisters

    if not part.data:
        return (), []
    try:
        canisters = decode_canisters(part.data)
    except (CodecError, UnicodeDecodeError):
        return _decode_singly(part, tolerant)
    if len(canisters) != part.data.count(b"\n"):  # fork points count the empty lines it skips
        return _decode_singly(part, tolerant)
    return canisters, []


def _decode_singly(part: Part, tolerant: bool) -> tuple[list[AnyCanister], list[Finding]]:
    from vibe_llms.messages.codec import decode_canister

    canisters: list[AnyCanister] = []
    findings: list[Finding] = []
    for number, line in enumerate(part.data.split(b"\n")[:-1], 1):
        try:
            canisters.append(decode_canister(line))
        except (CodecError, UnicodeDecodeError) as error:
            if not tolerant:
                raise CorruptionError(
                    path=part.path,
                    line=number,
                    detail=f"The line does not read: {error}.",
                    remedy="Run `vibe verify` to see all damage; `vibe show` shows what is whole.",
                ) from error
            findings.append(Finding(place=part.path, line=number, message=str(error)))
    return canisters, findings
