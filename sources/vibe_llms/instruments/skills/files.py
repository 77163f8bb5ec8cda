"""Files beside a ``SKILL.md``: listed, read and hashed, never outside of the skill's folder."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.refusals import Refusal
from vibe_llms.invocables.shipped.grants import Grants, produce_grant
from vibe_llms.invocables.shipped.opening import open_file, read_whole

SKILL_FILE: Final = "SKILL.md"
"""Name of the file in a skill's folder that has its instructions."""

FILES: Final = 1_000
"""Maximum number of files of a skill."""

FOLDER_BYTES: Final = 100_000_000
"""Maximum size of all files of a skill."""

FILE_BYTES: Final = 1_000_000
"""Maximum size of a file that a model reads."""


def list_files(folder: Path) -> tuple[str, ...]:
    """Return the paths of a skill's files in its folder, without hidden ones and links.

    Raises:
        ConfigurationError: There are too many.
    """
    entries = _survey(folder, with_hidden=False)
    return tuple(path for path, status in entries if stat.S_ISREG(status.st_mode))


def measure_folder(folder: Path) -> bytes:
    """Return the SHA-256 of all files of a skill, with their paths, hidden ones included.

    A link counts with the path to which it leads.

    Raises:
        ConfigurationError: There are too many, or they are too large, or cannot be read.
    """
    digest = hashlib.sha256()
    size = 0
    for path, status in _survey(folder, with_hidden=True):
        size += status.st_size
        if size > FOLDER_BYTES:
            message = f"The files of the skill have more than {FOLDER_BYTES} bytes."
            raise ConfigurationError.at(str(folder), message)
        digest.update(os.fsencode(path))
        try:
            if stat.S_ISLNK(status.st_mode):
                digest.update(b"\0link\0%b\0" % os.fsencode((folder / path).readlink()))
                continue
            with (folder / path).open("rb") as file:
                digest.update(b"\0file\0" + hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            message = f"Cannot read {path}: {error.strerror}."
            raise ConfigurationError.at(str(folder), message) from error
    return digest.digest()


def _survey(folder: Path, *, with_hidden: bool) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files and links with their status, in a stable order."""
    count = 0
    for directory, folders, files in os.walk(folder):
        if not with_hidden:
            folders[:] = [name for name in folders if name[0] != "."]
            files = [name for name in files if name[0] != "."]
        folders.sort()
        for name in sorted((*folders, *files)):  # a link may be among the folders
            path = Path(directory, name)
            status = path.lstat()
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                continue
            count += 1
            if count > FILES:
                raise ConfigurationError.at(str(folder), f"The skill has more than {FILES} files.")
            yield path.relative_to(folder).as_posix(), status


def read_text(folder: Path, path: str, context: InvocationContext) -> str:
    """Return the text of a file of a skill.

    Raises:
        Refusal: The path leaves the folder, or the file is missing, hidden, a link, too large, or
            not text.
        ConfigurationError: The skill has too many files.
    """
    path = os.path.relpath(folder / path, folder)
    if path not in list_files(folder):
        message = f"{path!r} does not exist in the skill. Hidden files and links cannot be read."
        raise Refusal(message)
    grants = Grants("skills", [produce_grant(str(folder), False, Path("/"))])
    grants.open()
    try:
        with grants.walk(path) as target, open_file(target) as (descriptor, _):
            data = read_whole(target, descriptor, FILE_BYTES, context)
    finally:
        grants.close()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Refusal(f"{path} is not text. A command can read it: {folder / path}")
    return text
