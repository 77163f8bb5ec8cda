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
    return tuple(path for path, _ in _survey(folder))


def measure_folder(folder: Path) -> bytes:
    """Return the SHA-256 of all files of a skill, with their paths.

    Raises:
        ConfigurationError: There are too many, or they are too large, or cannot be read.
    """
    digest = hashlib.sha256()
    size = 0
    for path, length in _survey(folder):
        size += length
        if size > FOLDER_BYTES:
            message = f"The files of the skill have more than {FOLDER_BYTES} bytes."
            raise ConfigurationError.at(str(folder), message)
        digest.update(f"{path}\0".encode("utf-8", "surrogateescape"))
        try:
            with (folder / path).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            message = f"Cannot read {path}: {error.strerror}."
            raise ConfigurationError.at(str(folder), message) from error
    return digest.digest()


def _survey(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the files with their sizes, in a stable order."""
    count = 0
    for directory, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        for name in sorted(files):
            path = Path(directory, name)
            status = path.lstat()
            if name[0] == "." or not stat.S_ISREG(status.st_mode):
                continue
            count += 1
            if count > FILES:
                raise ConfigurationError.at(str(folder), f"The skill has more than {FILES} files.")
            yield path.relative_to(folder).as_posix(), status.st_size


def read_text(folder: Path, path: str, context: InvocationContext) -> str:
    """Return the text of a file of a skill.

    Raises:
        Refusal: The path leaves the folder, or the file is missing, too large, or not text.
    """
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
