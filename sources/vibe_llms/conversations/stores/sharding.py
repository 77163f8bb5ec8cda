"""Distribution of a store's conversations over subfolders (shards).

So no folder has millions of entries. A shard is a folder below ``conversations``, named by a
checksum of the ids in the shard. Conversations directly below ``conversations`` are found, too:
conversations in the former layout, and conversations that a user puts there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final
from zlib import crc32

from vibe_llms.conversations.stores.identities import is_identity_form

SHARDS: Final = 1024
"""Number of shards: ten million conversations make ten thousand in each."""

NO_SHARD: Final = ""
"""Name of the shard of conversations that are directly below ``conversations``."""

# No conversation has such a name: an id begins with a letter or digit.
is_shard = re.compile("_[0-3][0-9a-f]{2}", re.ASCII).fullmatch


def name_shard(identity: str) -> str:
    """Return the name of the shard of a conversation."""
    return f"_{crc32(identity.encode()) % SHARDS:03x}"


def find_shard(root: str, identity: str) -> str:
    """Return the shard of a conversation; if it does not exist, the shard for a new one."""
    shard = name_shard(identity)
    if os.access(f"{root}/{shard}/{identity}", os.F_OK):
        return shard
    return NO_SHARD if os.access(f"{root}/{identity}", os.F_OK) else shard


def compose_folder(root: str, shard: str, identity: str) -> str:
    """Return the folder of a conversation in a shard."""
    return f"{root}/{shard}/{identity}" if shard else f"{root}/{identity}"


def find_folder(root: str, identity: str) -> str:
    """Return the folder of a conversation; if it does not exist, the folder for a new one."""
    return compose_folder(root, find_shard(root, identity), identity)


def survey_shards(names: Iterator[str] | list[str]) -> Iterator[str]:
    """Yield the names of the shards among the entries of ``conversations``."""
    return filter(is_shard, names)


def belongs(identity: str, shard: str) -> bool:
    """Return whether the store uses a folder of this name in this shard.

    Otherwise a user has copied the folder, or moved it to a wrong shard.
    """
    return bool(is_identity_form(identity)) and shard in (NO_SHARD, name_shard(identity))


def survey_identities(root: str) -> Iterator[str]:
    """Yield the ids of all conversations, each once.

    Raises:
        OSError: A shard is not readable. If that was ignored, its conversations would count as
            deleted.
    """
    names = _list_folder(root)
    seen = {*filter(is_identity_form, names)}
    yield from seen
    for shard in survey_shards(names):
        for name in _list_folder(f"{root}/{shard}"):
            if belongs(name, shard) and name not in seen:
                yield name


def measure_files(root: str, file: str) -> dict[str, tuple[int, int]]:
    """Return the inode and the size of a file of each conversation, if it is not empty.

    Raises:
        OSError: A shard is not readable.
    """
    found: dict[str, tuple[int, int]] = {}
    # Conversations without a shard last, as a conversation with an equal id in a shard has
    # precedence.
    for shard in (*survey_shards(_list_folder(root)), NO_SHARD):
        try:
            # Relative to an open folder, the system need not resolve the whole path each time.
            descriptor = os.open(f"{root}/{shard}", os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            _measure_shard(descriptor, shard, file, found)
        finally:
            os.close(descriptor)
    return found


def _measure_shard(
    descriptor: int, shard: str, file: str, found: dict[str, tuple[int, int]]
) -> None:
    access, stat, exists = os.access, os.stat, False
    number = int(shard[1:], 16) if shard else None
    for name in os.listdir(descriptor):
        path = f"{name}/{file}"
        # If the previous folder has no such file, this folder probably has none, either. So check
        # first, as an exception takes longer.
        if not exists and not access(path, os.F_OK, dir_fd=descriptor):
            continue
        try:
            status = stat(path, dir_fd=descriptor)
        except OSError:
            exists = False
            continue
        exists = True
        if (
            status.st_size
            and (number is None or crc32(name.encode()) % SHARDS == number)
            and is_identity_form(name)
            and name not in found
        ):
            found[name] = (status.st_ino, status.st_size)


def survey_folders(root: str) -> Iterator[str]:
    """Yield the folders of all conversations, and any other folders beside them."""
    for name in _list_folder(root):
        if is_shard(name):
            yield from (f"{root}/{name}/{each}" for each in _list_folder(f"{root}/{name}"))
        else:
            yield f"{root}/{name}"


def _list_folder(path: str) -> list[str]:
    """List a folder; empty if it does not exist. Raises OSError if it is not readable."""
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []
